#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#include "label_party/top/release_head_models.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6;
constexpr int64_t kCutWidth = 4;

// A head whose training waits until it is told to go on.
class HeldTopModel final : public TopModel {
 public:
  HeldTopModel(std::unique_ptr<TopModel> model, absl::Notification* may_train)
      : model_(std::move(model)), may_train_(may_train) {}

  bool needs_whole_batch() const override { return model_->needs_whole_batch(); }
  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    if (!may_train_->WaitForNotificationWithTimeout(absl::Minutes(1))) {
      return absl::DeadlineExceededError("nobody let it train");
    }
    return model_->ForwardBackward(activations, own, labels, targets);
  }
  absl::StatusOr<Matrix> OutputDirections() const override { return model_->OutputDirections(); }
  absl::Status Update() override { return model_->Update(); }
  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    return model_->Predict(activations, own);
  }
  NamedParameters Parameters() const override { return model_->Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return model_->SetParameters(parameters); }
  NamedParameters TrainingState() const override { return model_->TrainingState(); }
  absl::Status SetTrainingState(const NamedParameters& state) override { return model_->SetTrainingState(state); }
  absl::Status ExportTo(const std::string& folder) const override { return model_->ExportTo(folder); }

 private:
  const std::unique_ptr<TopModel> model_;
  absl::Notification* const may_train_;
};

bool IsReleaseHeads(const std::pair<std::string, std::vector<float>>& named) {
  return absl::StartsWith(named.first, "release_head.");
}

NamedParameters WithPrefix(const std::string& prefix, NamedParameters state) {
  for (auto& [name, values] : state) {
    name.insert(0, prefix);
  }
  return state;
}

class TwoHeadedTopModelTest : public ::testing::Test {
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
  std::unique_ptr<TopModel> TwoHeads() const { return *MakeTwoHeadedTopModel(OneHead(), OneHead(), 1); }

  // One step of `model`, in two slices; its cut gradients.
  std::vector<float> Step(TopModel& model, const std::vector<float>& labels, const std::vector<float>& targets) {
    std::vector<float> gradients;
    const std::vector<FeatureBatch> own = {Rows(0, 2), Rows(2, 4)};
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t first = i == 0 ? 0 : 2;
      const size_t rows = i == 0 ? 2 : 4;
      const auto step = model.ForwardBackward(
          activations_.block(static_cast<int64_t>(first), static_cast<int64_t>(rows)), own[i],
          absl::MakeConstSpan(labels).subspan(first, rows),
          targets.empty() ? TrainingTargets() : TrainingTargets{absl::MakeConstSpan(targets).subspan(first, rows)});
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
  const std::vector<float> labels_ = {0, 1, 1, 0, 0, 1};
  const std::vector<float> flipped_ = {1, 1, 0, 0, 1, 1};
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

// The caller's rows are gone after each Update, as in training.
TEST_F(TwoHeadedTopModelTest, LearnsAsTwoHeadsTrainedInSequence) {
  const auto two = TwoHeads();
  const auto releasing = OneHead();
  const auto predicting = OneHead();
  for (int step = 0; step < 50; ++step) {
    activations_ = RandomMatrix(kRows, kCutWidth, generator_);
    own_ = RandomFeatures(kRows, {2, 2, 20}, generator_);
    const std::vector<float> gradients = Step(*releasing, labels_, targets_);
    Step(*predicting, labels_, {});
    EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(gradients));
  }
  NamedParameters both = predicting->TrainingState();
  for (auto& named : WithPrefix("release_head.", releasing->TrainingState())) {
    both.push_back(std::move(named));
  }
  EXPECT_EQ(two->TrainingState(), both);
}

TEST_F(TwoHeadedTopModelTest, NoBatchWaitsForThePredictionHead) {
  absl::Notification may_train;
  const auto two = *MakeTwoHeadedTopModel(OneHead(), std::make_unique<HeldTopModel>(OneHead(), &may_train), 1);
  const auto releasing = OneHead();
  const auto predicting = OneHead();
  EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(Step(*releasing, labels_, targets_)));
  EXPECT_THAT(
      two->ForwardBackward(activations_, own_, labels_, {targets_})->cut_gradient.values(),
      ElementsAreArray(releasing->ForwardBackward(activations_, own_, labels_, {targets_})->cut_gradient.values()));
  may_train.Notify();
  EXPECT_TRUE(two->Update().ok());
  Step(*predicting, labels_, {});
  ASSERT_TRUE(predicting->ForwardBackward(activations_, own_, labels_, {}).ok());
  ASSERT_TRUE(predicting->Update().ok());
  EXPECT_THAT(*two->Predict(activations_, own_), ElementsAreArray(*predicting->Predict(activations_, own_)));
  EXPECT_EQ(two->Parameters(), predicting->Parameters());
}

TEST_F(TwoHeadedTopModelTest, EndsWithAStepUnderWay) {
  absl::Notification may_train;
  may_train.Notify();
  auto two = *MakeTwoHeadedTopModel(OneHead(), std::make_unique<HeldTopModel>(OneHead(), &may_train), 1);
  Step(*two, labels_, targets_);
  two.reset();
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
  EXPECT_THAT(*two->Predict(activations_, own_), ::testing::Each(0.0F));
  EXPECT_THAT(Step(*two, labels_, targets_), ElementsAreArray(Step(*honest, labels_, targets_)));
  EXPECT_THAT(*two->Predict(activations_, own_), ::testing::Each(0.0F));
}

TEST_F(TwoHeadedTopModelTest, AStateHoldsNothingOfAPredictionHeadThatDiverged) {
  const auto two = TwoHeads();
  Step(*two, labels_, targets_);
  NamedParameters spoilt = two->TrainingState();
  for (auto& [name, values] : spoilt) {
    if (name == "logit.weight") {
      values.front() = std::numeric_limits<float>::quiet_NaN();
    }
  }
  ASSERT_TRUE(two->SetTrainingState(spoilt).ok());
  EXPECT_THAT(two->TrainingState(), ::testing::Each(::testing::Truly(IsReleaseHeads))) << "before anything noticed it";
  Step(*two, labels_, targets_);
  const NamedParameters kept = two->TrainingState();
  EXPECT_THAT(
      kept, ::testing::AllOf(::testing::Not(::testing::IsEmpty()), ::testing::Each(::testing::Truly(IsReleaseHeads))));
  const auto later = TwoHeads();
  ASSERT_TRUE(later->SetTrainingState(kept).ok());
  EXPECT_EQ(later->Parameters(), OneHead()->Parameters());
  EXPECT_THAT(Step(*later, labels_, targets_), ElementsAreArray(Step(*two, labels_, targets_)));
}

TEST_F(TwoHeadedTopModelTest, NeedsTargets) {
  const auto two = TwoHeads();
  EXPECT_EQ(two->ForwardBackward(activations_, own_, labels_, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(two->Update().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace splitveil
