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

}  // namespace
}  // namespace splitveil
