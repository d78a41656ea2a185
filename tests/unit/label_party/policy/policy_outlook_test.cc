#include "label_party/policy/policy_outlook.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>

#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

PolicyOutlook Foresee(const std::string& protection_text, const std::string& policy_text, int epochs,
                      const std::vector<double>& label_dp = {}) {
  v1::GradientProtection protection;
  v1::ReleasePolicy policy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(protection_text, &protection));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(policy_text, &policy));
  FillPlannedEpochs(epochs, protection);
  const auto outlook = ForeseePolicy(policy, protection, epochs, label_dp);
  EXPECT_TRUE(outlook.ok()) << outlook.status();
  return outlook.value_or(PolicyOutlook());
}

TEST(PolicyOutlookTest, ABudgetThatIsPlannedForAllEpochsIsKept) {
  const PolicyOutlook outlook = Foresee("marvell { run_budget { max_run_auc_bound: 0.7 } }", "", 5);
  EXPECT_EQ(outlook.action, v1::RELEASE);
  EXPECT_EQ(outlook.first_epoch, 0);
  // 0.94 of K = 2 Phi^-1(0.7)^2 = 0.5500: Phi(sqrt(0.5170 / 2)) = 0.694.
  EXPECT_THAT(outlook.text, HasSubstr("an AUC of at most 0.694"));
}

TEST(PolicyOutlookTest, ABudgetThatIsPlannedForFewerEpochsActsBehindThem) {
  const PolicyOutlook outlook =
      Foresee("marvell { run_budget { max_run_auc_bound: 0.7 planned_epochs: 3 when_spent: HALT } }", "", 5);
  EXPECT_EQ(outlook.action, v1::HALT);
  EXPECT_EQ(outlook.first_epoch, 4);
}

// Phi(sqrt(E sum_kl / 2)) with sum_kl 0.2: 0.624, 0.673, 0.708 after one, two, three epochs.
TEST(PolicyOutlookTest, ALimitOfTheRunIsReachedInTheEpochThatPassesIt) {
  const PolicyOutlook outlook = Foresee("marvell { sum_kl: 0.2 }", "max_run_auc_bound: 0.7 action: FREEZE_BOTTOM", 5);
  EXPECT_EQ(outlook.action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(outlook.first_epoch, 3);
  EXPECT_THAT(outlook.text, HasSubstr("freeze_bottom in epoch 3 of 5"));
  EXPECT_EQ(Foresee("marvell { sum_kl: 0.2 }", "max_run_auc_bound: 0.7 action: HALT", 2).action, v1::RELEASE);
}

TEST(PolicyOutlookTest, NoBoundAtAllPassesEveryLimit) {
  EXPECT_EQ(Foresee("none {}", "max_step_auc_bound: 0.9 action: HALT", 5).first_epoch, 1);
  EXPECT_EQ(Foresee("none {}", "", 5).action, v1::RELEASE);
  EXPECT_THAT(Foresee("none {}", "", 5).text, HasSubstr("no bound"));
}

// All draws of gaussian_label_dp count from the first batch on: mu^2 = 0.55 in all, AUC 0.700.
TEST(PolicyOutlookTest, AllDrawsOfLabelNoiseCountAtOnce) {
  const std::string protection = "gaussian_label_dp { max_run_auc_bound: 0.7 }";
  const std::vector<double> draws(5, 0.11);
  EXPECT_EQ(Foresee(protection, "max_run_auc_bound: 0.65 action: HALT", 5, draws).first_epoch, 1);
  EXPECT_EQ(Foresee(protection, "max_run_auc_bound: 0.71 action: HALT", 5, draws).action, v1::RELEASE);
}

TEST(PolicyOutlookTest, EpochsThatAreNotReleasedFreezeTheBottom) {
  const PolicyOutlook outlook = Foresee("gaussian_label_dp { sigma: 2 released_epochs: 2 }", "", 5, {0.1, 0.1});
  EXPECT_EQ(outlook.action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(outlook.first_epoch, 3);
}

TEST(PolicyOutlookTest, NoiseRelativeToGradientsIsKnownInTheRunOnly) {
  for (const char* protection : {"iso { t: 1 }", "marvell { s: 4 }"}) {
    const PolicyOutlook outlook = Foresee(protection, "max_run_auc_bound: 0.7 action: HALT", 5);
    EXPECT_FALSE(outlook.known);
    EXPECT_EQ(outlook.action, v1::RELEASE);
  }
}

TEST(PolicyOutlookTest, FailsWhereTheGateWould) {
  v1::ReleasePolicy policy;
  policy.set_action(v1::RAISE_NOISE);
  v1::GradientProtection protection;
  protection.mutable_none();
  EXPECT_EQ(ForeseePolicy(policy, protection, 5, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
