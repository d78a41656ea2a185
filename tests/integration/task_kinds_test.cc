// Labels of several classes and numbers under gaussian_label_dp: whole runs of both parties in one process. Keys repeat
// (repeated_draws.cc), so that each figure is the same in every run: with a key of their own, one run in twelve failed.
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "label_party/session/label_session.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using Json = nlohmann::json;

constexpr int kExamples = 2000;
constexpr Task kFiveClasses = {Task::Kind::kMultiClass, 5};
constexpr Task kNumber = {Task::Kind::kRegression, 0};

double Normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2)); }

class TaskKindsTest : public ::testing::Test {
 protected:
  // Without the exact figures of an oracle, by which a peer could solve for labels.
  static std::unique_ptr<SmallRun> NewRun(const Task& task, int examples = kExamples) {
    auto run = std::make_unique<SmallRun>(examples, task);
    run->agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run->agreement.mutable_audit()->clear_attacks();
    run->agreement.mutable_audit()->add_attacks(v1::NORM);
    return run;
  }
  // A finished run's figures.
  static Json Train(SmallRun& run) {
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run.LabelOptions());
    EXPECT_TRUE(label.ok()) << label.status();
    LocalLabelParty peer(label->get());
    NonLabelSession session(run.NonLabelOptions(&peer));
    const absl::Status status = session.Run();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE((*label)->WaitUntilEnded([] { return true; }).ok());
    EXPECT_TRUE((*label)->completed());
    return Json::parse(FullResultJson(*(*label)->figures()));
  }
  static std::string Refusal(SmallRun& run) {
    const absl::Status status = LabelSession::Create(run.LabelOptions()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
};

// The adversary knows all but which of two classes an example is of: two components, noise sqrt 2 apart from each
// other. What it reads is what is proved, but for the sampling error of 16,000 examples' AUC (0.004; four times that).
TEST_F(TaskKindsTest, TheWorstCaseOfSeveralClassesIsWhatIsProved) {
  const auto run = NewRun(kFiveClasses, 16'000);
  run->label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  const Json result = Train(*run);
  const double proved = Normal(0.5);  // mu = sqrt 2 / 2.
  EXPECT_NEAR(result["standing"]["proved_auc_bound"], proved, 1e-5);
  // Its standard error is 0.0053: four of them above; below also what the head hides of the noised labels, 0.009 on
  // average over 8 runs.
  EXPECT_LT(result["standing"]["worst_case"]["auc"], proved + 0.021);
  EXPECT_GT(result["standing"]["worst_case"]["auc"], proved - 0.035);
  EXPECT_NE(result["standing"]["verdict"], "broken");
  EXPECT_NEAR(result["claim_check"]["claimed_mu"], std::sqrt(2) / 2, 1e-5);
  EXPECT_LE(result["claim_check"]["mu_lower"], std::sqrt(2) / 2);
  EXPECT_GT(result["claim_check"]["mu_lower"], 0.25);  // 0.51 on average, scattering by 0.06.
  EXPECT_TRUE(result["test_auc"].is_number());
  EXPECT_TRUE(result["test_accuracy"].is_number());
  EXPECT_FALSE(result.contains("test_rmse"));
}

// As above of 2000 examples (0.011), the posterior of the noised label in place of the noised label.
TEST_F(TaskKindsTest, SoItIsWithTheLikelihoodCorrection) {
  const auto run = NewRun(kFiveClasses);
  run->label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  run->label_config.mutable_protection()->mutable_gaussian_label_dp()->set_likelihood_correction(true);
  const Json result = Train(*run);
  EXPECT_NEAR(result["standing"]["worst_case"]["auc"], Normal(0.5), 0.044);
  EXPECT_LE(result["claim_check"]["mu_lower"], std::sqrt(2) / 2);
}

// Two numbers are at most 1 apart: what is proved is reached by those alone, and no pair of ours is.
TEST_F(TaskKindsTest, TheWorstCaseOfNumbersStaysBelowWhatIsProved) {
  const auto run = NewRun(kNumber);
  run->label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(1);
  const Json result = Train(*run);
  const double proved = Normal(1 / std::sqrt(2));
  EXPECT_NEAR(result["standing"]["proved_auc_bound"], proved, 1e-5);
  EXPECT_LE(result["standing"]["worst_case"]["auc"], proved);
  EXPECT_GT(result["standing"]["worst_case"]["auc"], Normal(0.5 / std::sqrt(2)) - 0.044);
  EXPECT_LE(result["claim_check"]["mu_lower"], 1);
  EXPECT_TRUE(result["test_rmse"].is_number());
  EXPECT_TRUE(result["test_r2"].is_number());
  EXPECT_TRUE(result["test_auc"].is_null());
}

// What the pairs of ours allow. A pair at distance s scores s^2 (place - 1/2), place ~ N(0 or 1, 1 / (mu s)^2): N(-s^2
// / 2 or s^2 / 2, (s / mu)^2). Of a higher one at distance s and a lower one at distance t, the higher scores more with
// probability Phi(mu sqrt(s^2 + t^2) / 2); s = t = 1 is what is proved. The farther end of the range is at a distance
// uniform between 1/2 and 1, as SmallRun's numbers are in either half.
double AucOfPairs(double mu) {
  constexpr int kSteps = 400;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    for (int j = 0; j < kSteps; ++j) {
      const double s = 0.5 + (i + 0.5) / (2 * kSteps), t = 0.5 + (j + 0.5) / (2 * kSteps);
      sum += Normal(mu * std::sqrt(s * s + t * t) / 2);
    }
  }
  return sum / (kSteps * kSteps);
}

// Noise so weak that the AUC of 12,800 training examples scatters by no more than 0.002.
TEST_F(TaskKindsTest, TheWorstCaseOfNumbersIsWhatTheirDistancesAllow) {
  const auto run = NewRun(kNumber, 16'000);
  run->label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(0.25);
  run->agreement.set_batch_size(1024);
  const Json result = Train(*run);
  const double expected = AucOfPairs(4);
  EXPECT_NEAR(result["standing"]["worst_case"]["auc"], expected, 0.01);
  EXPECT_NEAR(result["standing"]["proved_auc_bound"], Normal(4 / std::sqrt(2)), 1e-5);
  EXPECT_LT(expected, Normal(4 / std::sqrt(2)) - 0.015) << "the pairs' distances make no difference here";
  RecordProperty("expected_auc", std::to_string(expected));
}

TEST_F(TaskKindsTest, WithoutProtectionTheLabelsAreReadAndThePartiesLearn) {
  for (const Task& task : {kFiveClasses, kNumber}) {
    const auto run = NewRun(task);
    run->agreement.set_epochs(8);
    const Json result = Train(*run);
    EXPECT_GT(result["standing"]["worst_case"]["auc"], 0.99);
    if (task.kind == Task::Kind::kMultiClass) {
      EXPECT_GT(result["test_auc"], 0.55);
    } else {
      EXPECT_GT(result["test_r2"], 0.05);
    }
  }
}

TEST_F(TaskKindsTest, WhatIsMadeForTwoClassesIsRefused) {
  for (const Task& task : {kFiveClasses, kNumber}) {
    auto run = NewRun(task);
    run->label_config.set_clip_cut_gradients(1);
    EXPECT_NE(Refusal(*run).find("clip_cut_gradients: works with labels of two classes only"), std::string::npos);
    v1::GradientProtection marvell;
    marvell.mutable_marvell()->set_s(4);
    const absl::Status status = CheckTask(marvell, task);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("protection.marvell: expected labels of two classes"), std::string::npos) << status;
  }
}

TEST_F(TaskKindsTest, TheAuditedClassIsOneOfTheSchema) {
  auto run = NewRun(kFiveClasses);
  run->label_config.mutable_label_side_audit()->set_audited_class("class3");
  EXPECT_TRUE(LabelSession::Create(run->LabelOptions()).ok());
  run->label_config.mutable_label_side_audit()->set_audited_class("class5");
  EXPECT_NE(Refusal(*run).find("audited_class: expected one of the schema's classes"), std::string::npos);
  run = NewRun({});
  run->label_config.mutable_label_side_audit()->set_audited_class("class3");
  EXPECT_NE(Refusal(*run).find("audited_class: expected none"), std::string::npos);
}

}  // namespace
}  // namespace splitveil::testing
