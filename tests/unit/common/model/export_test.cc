#include "common/model/export.h"

#include <ATen/ATen.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <vector>

#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAreArray;

// Rows of 2 numbers, behind each of which Adam keeps 4 more and the average 2.
TEST(ExportTest, AnEmbeddingIsWrittenAsItPredictsWithoutWhatTheOptimizerRemembers) {
  v1::Embedding embedding;
  embedding.set_dimension(2);
  const FeatureShape features{/*numeric=*/1, /*categorical=*/2, /*embedding_rows=*/6};
  OptimizerOptions optimizer;
  optimizer.average_decay = 0.5;
  const auto input = InputLayer::Create({"model", features, &embedding, optimizer, /*seed=*/3});
  ASSERT_TRUE(input.ok()) << input.status();
  std::mt19937 generator(1);
  const std::vector<int64_t> categories = {0, 3, 2, 5};
  ASSERT_TRUE((*input)->Update({{categories, RandomMatrix(2, 5, generator)}}).ok());

  HalfScript script({}, &features);
  script.Assemble("x", **input, "");
  const std::string folder = ::testing::TempDir() + "/export_test";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(ExportHalf(script, "x", {folder, "party"}).ok());

  const at::Tensor table = torch::jit::load(folder + "/party.pt").attr("embedding").toTensor();
  EXPECT_EQ(table.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_EQ(table.storage().nbytes(), 6 * 2 * sizeof(float));
  EXPECT_THAT(absl::MakeConstSpan(table.data_ptr<float>(), 12),
              ElementsAreArray(CopyParameters((*input)->parameters("", ParameterUse::kPrediction)).front().second));
  std::filesystem::remove_all(folder);
}

TEST(ExportTest, NumbersAreExportedInTheirPieces) {
  v1::Embedding embedding;
  embedding.set_dimension(2);
  const FeatureShape features{/*numeric=*/2, /*categorical=*/1, /*embedding_rows=*/6};
  const auto input = InputLayer::Create({"model", features, &embedding, {}, /*seed=*/3, /*pieces=*/7});
  ASSERT_TRUE(input.ok()) << input.status();
  HalfScript script({}, &features);
  script.Assemble("x", **input, "");
  const std::string folder = ::testing::TempDir() + "/export_pieces_test";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(ExportHalf(script, "x", {folder, "party"}).ok());

  std::mt19937 generator(1);
  FeatureBatch batch;
  batch.rows = 5;
  batch.numeric = RandomMatrix(5, 2, generator);
  batch.categories = {0, 3, 2, 5, 3};
  Matrix storage;
  const auto own = (*input)->Assemble(batch, ParameterUse::kPrediction, storage);
  ASSERT_TRUE(own.ok()) << own.status();
  const at::Tensor exported =
      torch::jit::load(folder + "/party.pt")
          .forward({at::from_blob(batch.numeric.data(), {5, 2}), at::tensor(batch.categories).view({5, 1})})
          .toTensor()
          .contiguous();
  ASSERT_EQ(exported.sizes(), at::IntArrayRef({5, 2 + 2 * 7}));
  EXPECT_THAT(absl::MakeConstSpan(exported.data_ptr<float>(), 5 * 16),
              ElementsAreArray(absl::MakeConstSpan(own->data(), 5 * 16)));
  std::filesystem::remove_all(folder);
}

TEST(ExportTest, LayersWhoseNamesATorchScriptFileCannotTellApartStayTwo) {
  LayerStack::Options options;
  options.chain.field = "model";
  options.chain.input_width = 3;
  options.chain.layers = {MakeLayer("a b", 4, v1::TANH), MakeLayer("a_b", 2, v1::LINEAR)};
  const auto stack = LayerStack::Create(options);
  ASSERT_TRUE(stack.ok()) << stack.status();
  HalfScript script({"x"}, nullptr);
  script.Apply("x", **stack);
  const std::string folder = ::testing::TempDir() + "/export_names_test";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(ExportHalf(script, "x", {folder, "party"}).ok());
  std::mt19937 generator(1);
  Matrix input = RandomMatrix(5, 3, generator);
  const auto pass = (*stack)->Forward(input);
  ASSERT_TRUE(pass.ok()) << pass.status();
  const at::Tensor exported =
      torch::jit::load(folder + "/party.pt").forward({at::from_blob(input.data(), {5, 3})}).toTensor().contiguous();
  ASSERT_EQ(exported.sizes(), at::IntArrayRef({5, 2}));
  EXPECT_THAT(absl::MakeConstSpan(exported.data_ptr<float>(), 10),
              ::testing::Pointwise(::testing::FloatNear(1e-6F), pass->output().values()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace splitveil
