#include "common/model/input_layer.h"

#include <algorithm>
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

// What of each quarter of [0, 1] lies below the number.
TEST_F(InputLayerTest, GivesNumbersInPieces) {
  options_.pieces = 4;
  options_.features.numeric = 2;
  batch_.numeric = Matrix(2, 2);
  batch_.numeric.row(0)[0] = 0;
  batch_.numeric.row(0)[1] = 0.3125f;
  batch_.numeric.row(1)[0] = 1;
  batch_.numeric.row(1)[1] = 0.75f;
  auto layer = Create();
  ASSERT_EQ(layer->width(), 4 + 8);
  Matrix storage;
  const auto input = layer->Assemble(batch_, ParameterUse::kTraining, storage);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_THAT(input->row(0).subspan(4), ElementsAre(0, 0, 0, 0, 1, 0.25f, 0, 0));
  EXPECT_THAT(input->row(1).subspan(4), ElementsAre(1, 1, 1, 1, 1, 1, 1, 0));
}

// Whatever values a continuous function has at the ends of the pieces: a weighted sum of them is linear in between.
TEST_F(InputLayerTest, AWeightedSumOfPiecesIsAnyPiecewiseLinearFunction) {
  const std::vector<double> at_ends = {0.5, -1, 2, 2, -0.25, 7};
  options_.pieces = 5;
  options_.features = {/*numeric=*/1, /*categorical=*/0, /*embedding_rows=*/0};
  batch_.categories.clear();
  batch_.rows = 101;
  batch_.numeric = Matrix(101, 1);
  for (int64_t row = 0; row < 101; ++row) {
    batch_.numeric.row(row)[0] = static_cast<float>(row) / 100;
  }
  Matrix storage;
  const auto input = Create()->Assemble(batch_, ParameterUse::kTraining, storage);
  ASSERT_TRUE(input.ok()) << input.status();
  for (int64_t row = 0; row < 101; ++row) {
    double sum = at_ends[0];
    for (size_t i = 0; i < 5; ++i) {
      sum += (at_ends[i + 1] - at_ends[i]) * input->row(row)[i];
    }
    const auto left = static_cast<size_t>(std::min<int64_t>(row / 20, 4));
    const double share = static_cast<double>(row) / 20 - static_cast<double>(left);
    EXPECT_NEAR(sum, (1 - share) * at_ends[left] + share * at_ends[left + 1], 1e-5) << row;
  }
}

TEST_F(InputLayerTest, RefusesImagesInPieces) {
  options_.pieces = 2;
  options_.features = {/*numeric=*/4, /*categorical=*/0, /*embedding_rows=*/0, /*image=*/{1, 2, 2}};
  ExpectCreateRefused("model.numeric_pieces: expected 1, as the data have images, found 2");
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
