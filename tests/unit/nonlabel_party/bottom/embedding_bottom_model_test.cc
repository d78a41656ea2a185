#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/reference_network.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kBatch = 6;
constexpr int64_t kWidth = 2 * 2 + 3;  // Two embeddings of two, three numbers.

// BottomModel::Create makes it of a half without layers.
class EmbeddingBottomModelTest : public ::testing::Test {
 protected:
  EmbeddingBottomModelTest() {
    options_.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/20};
    options_.spec.mutable_embedding()->set_dimension(2);
    options_.optimizer.set_learning_rate(0.5);
    options_.optimizer.mutable_sgd();
    options_.cut_width = kWidth;
    options_.seed = 21;
  }

  std::unique_ptr<BottomModel> Create() const {
    auto model = BottomModel::Create(options_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  FeatureBatch MakeBatch(int64_t rows = kBatch) { return RandomFeatures(rows, options_.features, generator_); }
  void ExpectCreateRefused(const std::string& text) const {
    for (const absl::Status& status : {BottomModel::Create(options_).status(), BottomModel::Check(options_).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    }
  }

  BottomModelOptions options_;
  std::mt19937 generator_{4};
  Matrix cut_gradient_ = RandomMatrix(kBatch, kWidth, generator_);
};

TEST_F(EmbeddingBottomModelTest, SendsEmbeddingsAndNumbersAsTheyAre) {
  const auto model = Create();
  const std::vector<float> table = FindParameter(model->Parameters(), "embedding");
  const FeatureBatch batch = MakeBatch();
  const auto trained = model->Forward(batch);
  const auto predicted = model->Predict(batch);
  ASSERT_TRUE(trained.ok()) << trained.status();
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    std::vector<float> expected;
    for (int64_t c = 0; c < 2; ++c) {
      const int64_t row = batch.categories[j * 2 + c];
      expected.insert(expected.end(), {table[row * 2], table[row * 2 + 1]});
    }
    expected.insert(expected.end(), batch.numeric.row(j).begin(), batch.numeric.row(j).end());
    EXPECT_THAT(trained->row(j), ElementsAreArray(expected));
    EXPECT_THAT(predicted->row(j), ElementsAreArray(expected));
  }
}

// Plain gradient descent by hand: each row of the table moves by the mean gradient at its place in the activations.
TEST_F(EmbeddingBottomModelTest, StepsTheTableByTheMeanGradientAtTheCut) {
  const auto model = Create();
  std::vector<float> expected = FindParameter(model->Parameters(), "embedding");
  const FeatureBatch batch = MakeBatch();
  ASSERT_TRUE(model->Forward(batch).ok());
  ASSERT_TRUE(model->Backward(Matrix(cut_gradient_), {}).ok());  // A temporary: gone by the Update.
  ASSERT_TRUE(model->Update().ok());
  for (int64_t j = 0; j < kBatch; ++j) {
    for (int64_t i = 0; i < 4; ++i) {
      expected[batch.categories[j * 2 + i / 2] * 2 + i % 2] -= 0.5F * cut_gradient_.row(j)[i] / kBatch;
    }
  }
  const std::vector<float> found = FindParameter(model->Parameters(), "embedding");
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
  }
}

TEST_F(EmbeddingBottomModelTest, SlicesTrainAsTheirBatch) {
  const auto whole = Create();
  const auto sliced = Create();
  const FeatureBatch batch = MakeBatch();
  ASSERT_TRUE(whole->Forward(batch).ok());
  ASSERT_TRUE(whole->Backward(cut_gradient_, {}).ok());
  for (int64_t first = 0; first < kBatch; first += 4) {
    const int64_t rows = std::min<int64_t>(4, kBatch - first);
    FeatureBatch slice;
    slice.rows = rows;
    slice.numeric = Matrix(batch.numeric.block(first, rows));
    slice.categories.assign(batch.categories.begin() + first * 2, batch.categories.begin() + (first + rows) * 2);
    ASSERT_TRUE(sliced->Forward(slice).ok());
  }
  ASSERT_TRUE(sliced->Backward(cut_gradient_.block(0, 4), {}).ok());
  ASSERT_TRUE(sliced->Backward(cut_gradient_.block(4, 2), {}).ok());
  EXPECT_TRUE(sliced->BackpropagateHint(5, cut_gradient_.row(5), {"cut"}).ok()) << "of the second slice";
  ASSERT_TRUE(whole->Update().ok());
  ASSERT_TRUE(sliced->Update().ok());
  EXPECT_EQ(whole->Parameters(), sliced->Parameters());
}

TEST_F(EmbeddingBottomModelTest, TheCutIsAllThatCanBeAudited) {
  const auto model = Create();
  EXPECT_THAT(model->layer_names(), ElementsAre("cut"));
  EXPECT_THAT(*BottomModel::Check(options_), ElementsAre("cut"));
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  const auto refused = model->Backward(cut_gradient_, {"first"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("layer: expected one of cut"));
  const auto gradients = model->Backward(cut_gradient_, {"cut"});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT((*gradients)[0].row(1), ElementsAreArray(cut_gradient_.row(1)));
  const auto hint = model->BackpropagateHint(2, cut_gradient_.row(2), {"cut"});
  ASSERT_TRUE(hint.ok()) << hint.status();
  EXPECT_THAT((*hint)[0], ElementsAreArray(cut_gradient_.row(2)));
}

TEST_F(EmbeddingBottomModelTest, GoesOnFromItsStateAsIfNothingHadHappened) {
  options_.optimizer = MakeAdam(1e-2);
  options_.optimizer.set_average_decay(0.9);
  const auto model = Create();
  const auto train = [&](BottomModel& trained, const FeatureBatch& batch) {
    ASSERT_TRUE(trained.Forward(batch).ok());
    ASSERT_TRUE(trained.Backward(cut_gradient_, {}).ok());
    ASSERT_TRUE(trained.Update().ok());
  };
  train(*model, MakeBatch());
  train(*model, MakeBatch());
  options_.seed = 22;
  const auto other = Create();
  ASSERT_TRUE(other->SetTrainingState(model->TrainingState()).ok());
  const FeatureBatch batch = MakeBatch();
  train(*model, batch);
  train(*other, batch);
  EXPECT_EQ(model->TrainingState(), other->TrainingState());
  EXPECT_EQ(model->Parameters(), other->Parameters());
}

TEST_F(EmbeddingBottomModelTest, RefusesCallsOutOfTurn) {
  const auto model = Create();
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->Discard().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->BackpropagateHint(0, cut_gradient_.row(0), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->Discard().ok());
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(EmbeddingBottomModelTest, RefusesShapesThatDoNotFitAndKeepsTheForward) {
  const auto model = Create();
  FeatureBatch narrow = MakeBatch();
  narrow.numeric = Matrix(kBatch, 2);
  EXPECT_EQ(model->Forward(narrow).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  EXPECT_EQ(model->Backward(Matrix(kBatch, kWidth + 1), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Backward(Matrix(kBatch - 1, kWidth), {}).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  const auto hint = [&](int64_t row, size_t width) {
    return model->BackpropagateHint(row, cut_gradient_.row(0).first(width), {"cut"}).status().code();
  };
  EXPECT_EQ(hint(kBatch, kWidth), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(hint(-1, kWidth), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(hint(0, kWidth - 1), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(model->Update().ok());
}

TEST_F(EmbeddingBottomModelTest, RefusesACutOfAnotherWidth) {
  options_.cut_width = 128;
  ExpectCreateRefused(
      "cut_width: expected 7, the 2 embeddings of 2 and 3 inputs from numeric columns of a bottom model without "
      "layers, found 128");
}

// Otherwise the features would leave as they are.
TEST_F(EmbeddingBottomModelTest, RefusesNumbersWithoutCategories) {
  options_.features = {/*numeric=*/3, /*categorical=*/0, /*embedding_rows=*/0};
  options_.cut_width = 3;
  ExpectCreateRefused("model.layers: a bottom model without categories to embed needs at least one");
}

TEST_F(EmbeddingBottomModelTest, RefusesCategoriesWithoutAnEmbedding) {
  options_.spec.clear_embedding();
  const absl::Status status = BottomModel::Create(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("model.embedding is missing"));
}

}  // namespace
}  // namespace splitveil
