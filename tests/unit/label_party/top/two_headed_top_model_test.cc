#include "label_party/top/two_headed_top_model.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6;
constexpr int64_t kCutWidth = 4;

class TwoHeadedTopModelTest : public testing::Test {
 protected:
  TwoHeadedTopModelTest() {
    options_.features = {/*numeric=*/2, /*categorical=*/2, /*embedding_rows=*/20};
    *options_.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
    options_.spec.mutable_wide()->mutable_embedding()->set_dimension(1);
    options_.optimizer = MakeAdam(1e-2);
    options_.cut_width = kCutWidth;
    options_.seed = 31;
  }

  std::unique_ptr<TopModel> OneHead() const { return *TopModel::Create(options_); }
  std::unique_ptr<TopModel> TwoHeads() const { return MakeTwoHeadedTopModel(OneHead(), OneHead()); }

  // One step of `model`, in two slices; its cut gradients.
  std::vector<float> Step(TopModel& model, const std::vector<uint8_t>& labels, const std::vector<float>& targets) {
    std::vector<float> gradients;
    const std::vector<FeatureBatch> own = {Rows(0, 2), Rows(2, 4)};
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t first = i == 0 ? 0 : 2;
      const size_t rows = i == 0 ? 2 : 4;
      const auto step = model.ForwardBackward(
          activations_.block(static_cast<int64_t>(first), static_cast<int64_t>(rows)), own[i],
          absl::MakeConstSpan(labels).subspan(first, rows),
          targets.empty() ? absl::Span<const float>() : absl::MakeConstSpan(targets).subspan(first, rows));
      EXPECT_TRUE(step.ok()) << step.status();
      gradients.insert(gradients.end(), step->cut_gradient.values().begin(), step->cut_gradient.values().end());
    }
    EXPECT_TRUE(model.Update().ok());
    return gradients;
  }

  TopModelOptions options_;
  std::mt19937 generator_{6};
  Matrix activations_ = RandomMatrix(kRows, kCutWidth, generator_);
  FeatureBatch own_ = RandomFeatures(kRows, {2, 2, 20}, generator_);
  const std::vector<uint8_t> labels_ = {0, 1, 1, 0, 0, 1};
  const std::vector<uint8_t> flipped_ = {1, 1, 0, 0, 1, 1};
  const std::vector<float> targets_ = {-1.5F, 2.25F, 0.5F, 0.25F, -3, 1};

 private:
  FeatureBatch Rows(int64_t first, int64_t rows) const {
    FeatureBatch part = own_;
    part.rows = rows;
    part.numeric = Matrix(own_.numeric.block(first, rows));
    part.categories.assign(own_.categories.begin() + 2 * first, own_.categories.begin() + 2 * (first + rows));
    return part;
  }
};

TEST_F(TwoHeadedTopModelTest, WhatLeavesIsThatOfAModelThatSeesTargetsAlone) {
  const auto two = TwoHeads();
  const auto one = OneHead();
  for (int step = 0; step < 5; ++step) {
    EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(Step(*one, labels_, targets_)));
  }
}

TEST_F(TwoHeadedTopModelTest, LabelsMoveNothingThatLeaves) {
  const auto two = TwoHeads();
  const auto other = TwoHeads();
  for (int step = 0; step < 5; ++step) {
    EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(Step(*other, flipped_, targets_)));
  }
  EXPECT_NE(two->Parameters(), other->Parameters());
}

TEST_F(TwoHeadedTopModelTest, PredictsAsAModelThatLearnsFromLabels) {
  const auto two = TwoHeads();
  const auto one = OneHead();
  for (int step = 0; step < 5; ++step) {
    Step(*two, labels_, targets_);
    Step(*one, labels_, {});
  }
  EXPECT_EQ(two->Parameters(), one->Parameters());
  EXPECT_THAT(*two->Predict(activations_, own_), ElementsAreArray(*one->Predict(activations_, own_)));
}

TEST_F(TwoHeadedTopModelTest, GoesOnFromItsState) {
  const auto two = TwoHeads();
  Step(*two, labels_, targets_);
  const auto later = TwoHeads();
  ASSERT_TRUE(later->SetTrainingState(two->TrainingState()).ok());
  EXPECT_THAT(Step(*later, labels_, targets_), ElementsAreArray(Step(*two, labels_, targets_)));
  EXPECT_EQ(later->Parameters(), two->Parameters());
}

TEST_F(TwoHeadedTopModelTest, RefusesAStateThatHasLearnedFromLabels) {
  const auto one = OneHead();
  Step(*one, labels_, {});
  const auto two = TwoHeads();
  const NamedParameters before = two->TrainingState();
  const absl::Status status = two->SetTrainingState(one->TrainingState());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected the release head"));
  EXPECT_EQ(two->TrainingState(), before);
}

TEST_F(TwoHeadedTopModelTest, AStateThatFitsOneHeadAloneChangesNothing) {
  const auto two = TwoHeads();
  const NamedParameters before = two->TrainingState();
  Step(*two, labels_, targets_);
  NamedParameters broken = two->TrainingState();
  broken.front().second.push_back(0);  // Of the prediction head, which comes first.
  const auto other = TwoHeads();
  EXPECT_FALSE(other->SetTrainingState(broken).ok());
  EXPECT_EQ(other->TrainingState(), before);
}

// Activations that only a label makes overflow: whether a run ends must not tell it.
TEST_F(TwoHeadedTopModelTest, APredictionHeadThatDivergesEndsNothing) {
  const auto two = TwoHeads();
  Step(*two, labels_, targets_);
  NamedParameters spoilt = two->TrainingState();
  for (auto& [name, values] : spoilt) {
    if (name == "logit.weight") {  // The prediction head's.
      std::fill(values.begin(), values.end(), std::numeric_limits<float>::max());
    }
  }
  ASSERT_TRUE(two->SetTrainingState(spoilt).ok());
  const auto honest = TwoHeads();
  Step(*honest, labels_, targets_);
  EXPECT_THAT(*two->Predict(activations_, own_), testing::Each(0.0F));
  EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(Step(*honest, labels_, targets_)));
  EXPECT_THAT(*two->Predict(activations_, own_), testing::Each(0.0F));
}

TEST_F(TwoHeadedTopModelTest, NeedsTargets) {
  const auto two = TwoHeads();
  EXPECT_EQ(two->ForwardBackward(activations_, own_, labels_, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(two->Update().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace splitveil
