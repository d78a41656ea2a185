#include "common/model/input_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

class InputLayerTest : public ::testing::Test {
 protected:
  InputLayerTest() {
    embedding_.set_dimension(2);
    options_.field = "model";
    options_.features = {/*numeric=*/1, /*categorical=*/2, /*embedding_rows=*/6};
    options_.embedding = &embedding_;
    batch_.rows = 2;
    batch_.numeric = Matrix(2, 1);
    batch_.numeric.row(0)[0] = 0.25f;
    batch_.numeric.row(1)[0] = 0.75f;
    batch_.categories = {0, 3, 2, 5};
  }

  std::unique_ptr<InputLayer> Create() {
    auto layer = InputLayer::Create(options_);
    EXPECT_TRUE(layer.ok()) << layer.status();
    return *std::move(layer);
  }
  void ExpectCreateRefused(const std::string& text) {
    const auto layer = InputLayer::Create(options_);
    EXPECT_EQ(layer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(layer.status().message().find(text), absl::string_view::npos) << layer.status();
  }
  void ExpectBatchRefused() {
    Matrix storage;
    EXPECT_EQ(Create()->Assemble(batch_, ParameterUse::kTraining, storage).status().code(),
              absl::StatusCode::kInvalidArgument);
  }

  v1::Embedding embedding_;
  InputLayer::Options options_;
  FeatureBatch batch_;
};

TEST_F(InputLayerTest, PutsEmbeddingsBeforeNumbers) {
  auto layer = Create();
  ASSERT_EQ(layer->width(), 5);
  Matrix storage;
  const auto input = layer->Assemble(batch_, ParameterUse::kTraining, storage);
  ASSERT_TRUE(input.ok()) << input.status();
  const std::vector<float> table = CopyParameters(layer->parameters("")).front().second;
  EXPECT_THAT(input->row(0), ElementsAre(table[0], table[1], table[6], table[7], 0.25f));
  EXPECT_THAT(input->row(1), ElementsAre(table[4], table[5], table[10], table[11], 0.75f));
}

TEST_F(InputLayerTest, PassesPlainNumbersOnWithoutACopy) {
  options_.features = {/*numeric=*/1, /*categorical=*/0, /*embedding_rows=*/0};
  options_.embedding = nullptr;
  batch_.categories.clear();
  auto layer = Create();
  Matrix storage;
  const auto input = layer->Assemble(batch_, ParameterUse::kTraining, storage);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->data(), batch_.numeric.data());
  EXPECT_TRUE(layer->parameters("").empty());
  EXPECT_TRUE(layer->Update({}).ok());
}

TEST_F(InputLayerTest, WorksWithoutNumericColumns) {
  options_.features.numeric = 0;
  batch_.numeric = Matrix();
  Matrix storage;
  const auto input = Create()->Assemble(batch_, ParameterUse::kTraining, storage);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->cols(), 4);
}

TEST_F(InputLayerTest, RefusesCategoriesWithoutAnEmbedding) {
  options_.embedding = nullptr;
  ExpectCreateRefused("model.embedding is missing");
}

TEST_F(InputLayerTest, RefusesNoFeaturesAtAll) {
  options_.features = {};
  ExpectCreateRefused("at least one feature column");
}

TEST_F(InputLayerTest, RefusesCategoriesWithoutEmbeddingRows) {
  options_.features.embedding_rows = 0;
  ExpectCreateRefused("model.embedding rows: expected");
}

TEST_F(InputLayerTest, RefusesAnEmptyBatch) {
  batch_ = FeatureBatch();
  ExpectBatchRefused();
}

TEST_F(InputLayerTest, RefusesNumbersOfAnotherShape) {
  batch_.numeric = Matrix(2, 2);
  ExpectBatchRefused();
  batch_.numeric = Matrix(3, 1);
  ExpectBatchRefused();
}

TEST_F(InputLayerTest, RefusesAnotherNumberOfCategories) {
  batch_.categories.pop_back();
  ExpectBatchRefused();
}

TEST_F(InputLayerTest, RefusesACategoryOutsideTheTable) {
  batch_.categories[1] = 6;
  ExpectBatchRefused();
}

}  // namespace
}  // namespace splitveil
