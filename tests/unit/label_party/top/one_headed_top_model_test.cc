#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "label_party/top/release_head_models.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kRows = 6;
constexpr int64_t kCutWidth = 4;

class OneHeadedTopModelTest : public ::testing::Test {
 protected:
  OneHeadedTopModelTest() {
    *options_.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
    options_.optimizer = MakeAdam(1e-2);
    options_.cut_width = kCutWidth;
    options_.seed = 31;
    own_.rows = kRows;
  }

  std::unique_ptr<TopModel> Bare() const { return *TopModel::Create(options_); }
  std::unique_ptr<TopModel> OneHead() const { return MakeOneHeadedTopModel(Bare()); }

  std::vector<float> Step(TopModel& model, const TrainingTargets& targets) {
    const auto step = model.ForwardBackward(activations_, own_, labels_, targets);
    EXPECT_TRUE(step.ok()) << step.status();
    std::vector<float> gradients(step->cut_gradient.values().begin(), step->cut_gradient.values().end());
    EXPECT_TRUE(model.Update().ok());
    return gradients;
  }

  TopModelOptions options_;
  std::mt19937 generator_{3};  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  const Matrix activations_ = RandomMatrix(kRows, kCutWidth, generator_);
  FeatureBatch own_;
  const std::vector<float> labels_ = {0, 1, 1, 0, 0, 1}, targets_ = {-2, 0.25F, 3, 0.5F, 1.5F, -1};
};

TEST_F(OneHeadedTopModelTest, LearnsAndPredictsFromTargetsAlone) {
  const auto one = OneHead();
  const auto bare = Bare();
  EXPECT_THAT(Step(*one, {targets_, 1.5}), ElementsAreArray(Step(*bare, {targets_, 1.5})));
  EXPECT_EQ(one->Parameters(), bare->Parameters());
  EXPECT_EQ(*one->Predict(activations_, own_), *bare->Predict(activations_, own_));
}

TEST_F(OneHeadedTopModelTest, RefusesLabelsForTargets) {
  EXPECT_EQ(OneHead()->ForwardBackward(activations_, own_, labels_, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(OneHeadedTopModelTest, RefusesAStateThatHasLearnedFromLabels) {
  const auto bare = Bare();
  Step(*bare, {});
  const auto one = OneHead();
  const NamedParameters before = one->TrainingState();
  const absl::Status status = one->SetTrainingState(bare->TrainingState());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected the release head"));
  EXPECT_EQ(one->TrainingState(), before);
}

TEST_F(OneHeadedTopModelTest, GoesOnFromTheReleaseHeadOfTwo) {
  const auto two = *MakeTwoHeadedTopModel(Bare(), Bare(), 1);
  Step(*two, {targets_});
  const auto one = OneHead();
  ASSERT_TRUE(one->SetTrainingState(two->TrainingState()).ok());
  EXPECT_THAT(Step(*one, {targets_}), ElementsAreArray(Step(*two, {targets_})));
  const auto again = *MakeTwoHeadedTopModel(Bare(), Bare(), 1);
  ASSERT_TRUE(again->SetTrainingState(one->TrainingState()).ok());
  EXPECT_THAT(Step(*again, {targets_}), ElementsAreArray(Step(*one, {targets_})));
}

TEST_F(OneHeadedTopModelTest, BeginsWithTheOutputsItIsGiven) {
  const auto one = OneHead(), as_made = OneHead();
  ASSERT_TRUE(BeginWithOutputs({-3}, *one).ok());
  const std::vector<float> before = *as_made->Predict(activations_, own_), after = *one->Predict(activations_, own_);
  const float moved = after[0] - before[0];
  EXPECT_LT(moved, -2);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i] - before[i], moved, 1e-5);
  }
  const auto two = *MakeTwoHeadedTopModel(Bare(), Bare(), 1);
  ASSERT_TRUE(BeginWithOutputs({-3}, *two).ok());
  EXPECT_EQ(*two->Predict(activations_, own_), before);  // By the other head.
  EXPECT_THAT(Step(*two, {targets_}), ElementsAreArray(Step(*one, {targets_})));
  ASSERT_TRUE(BeginWithOutputs({-3, 1}, *as_made).ok());  // No output of its own for the second: as it was.
  EXPECT_EQ(*as_made->Predict(activations_, own_), before);
}

}  // namespace
}  // namespace splitveil
