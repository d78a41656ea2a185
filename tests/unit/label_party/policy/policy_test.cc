// What the label party lets out: the gate before a gradient leaves, the disclosure before an AUC does.
#include <cmath>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "label_party/marvell/marvell_planner.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// Divergence of all releases of an example at which the AUC of one that accumulates them is 0.7: Phi(sqrt(x / 2)) = 0.7
// at x = 2 * 0.5244005127^2 (the 0.7 quantile of the normal distribution in the tables).
constexpr double kSumKlAt07 = 0.5499917954569;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

absl::StatusOr<ReleaseGate> CreateGate(const std::string& policy, const std::string& protection = "iso { t: 1 }") {
  return ReleaseGate::Create(Parse<v1::ReleasePolicy>(policy), Parse<v1::GradientProtection>(protection));
}

ReleaseGate Gate(const std::string& policy, const std::string& protection = "iso { t: 1 }") {
  absl::StatusOr<ReleaseGate> gate = CreateGate(policy, protection);
  EXPECT_TRUE(gate.ok()) << gate.status();
  return *std::move(gate);
}

TEST(ReleaseGateTest, ReleasesUpToTheBound) {
  // Theorem 1 at sumKL = 0.04: 1/2 + 0.2/2 - 0.04/8 = 0.595.
  const GateDecision decision = Gate("max_step_auc_bound: 0.6 action: HALT").Decide({0.04});
  EXPECT_EQ(decision.action, v1::RELEASE);
  EXPECT_TRUE(decision.reason.empty());
  EXPECT_NEAR(decision.auc_bound, 0.595, 1e-12);
}

TEST(ReleaseGateTest, TakesTheConfiguredActionAboveTheBound) {
  EXPECT_EQ(Gate("max_step_auc_bound: 0.59").Decide({0.04}).action, v1::WARN);
  EXPECT_EQ(Gate("max_step_auc_bound: 0.59 action: HALT").Decide({0.04}).action, v1::HALT);
  EXPECT_EQ(Gate("max_step_auc_bound: 0.59 action: RAISE_NOISE").Decide({0.04}).action, v1::RAISE_NOISE);
  EXPECT_EQ(Gate("max_step_auc_bound: 0.59 action: FREEZE_BOTTOM").Decide({0.04}).action, v1::FREEZE_BOTTOM);
}

TEST(ReleaseGateTest, NoDivergenceKnownCountsAsFullyExposed) {
  for (double sum_kl : {kNan, kInfinity, -1.0}) {
    for (const char* policy : {"max_step_auc_bound: 0.99 action: HALT", "max_run_auc_bound: 0.99 action: HALT"}) {
      const GateDecision decision = Gate(policy).Decide({sum_kl});
      EXPECT_EQ(decision.auc_bound, 1) << sum_kl;
      EXPECT_EQ(decision.action, v1::HALT) << sum_kl;
    }
  }
}

TEST(ReleaseGateTest, DefaultPolicyNeverActs) {
  EXPECT_EQ(Gate("").Decide({kInfinity, kInfinity, 1}).action, v1::RELEASE);
  EXPECT_EQ(Gate("").Decide({kNan, 0, 1}).action, v1::RELEASE);
}

TEST(ReleaseGateTest, ActsWhenTheReleasesOfAnExampleAddUpBeyondTheRunsBudget) {
  const ReleaseGate gate = Gate("max_run_auc_bound: 0.7 action: HALT");
  EXPECT_EQ(gate.Decide({0.1, kSumKlAt07 - 0.1001}).action, v1::RELEASE);
  const GateDecision decision = gate.Decide({0.1, kSumKlAt07 - 0.0999});
  EXPECT_EQ(decision.action, v1::HALT);
  EXPECT_THAT(decision.reason, HasSubstr("an adversary that accumulates over steps"));
}

TEST(ReleaseGateTest, ActsOnTheMeasuredLeakWhateverTheBoundSays) {
  const ReleaseGate gate = Gate("max_measured_leak: 0.75 action: HALT");
  EXPECT_EQ(gate.Decide({0.01, 0, 0.74}).action, v1::RELEASE);
  EXPECT_EQ(gate.Decide({0.01, 0, 0.76}).action, v1::HALT);
  EXPECT_TRUE(gate.WantsMeasuredLeak());
  EXPECT_FALSE(Gate("").WantsMeasuredLeak());
}

TEST(ReleaseGateTest, ActsOnTheWorstCaseWhateverTheBoundSays) {
  const ReleaseGate gate = Gate("max_worst_case_auc_bound: 0.75 action: HALT");
  EXPECT_TRUE(gate.WantsWorstCase());
  EXPECT_FALSE(Gate("").WantsWorstCase());
  ReleaseFigures figures;
  figures.sum_kl = 0.01;
  for (const auto& [bound, action] : {std::pair{0.74, v1::RELEASE}, {0.76, v1::HALT}, {kNan, v1::HALT}}) {
    figures.worst_case_auc_bound = bound;
    EXPECT_EQ(gate.Decide(figures).action, action) << bound;
  }
  EXPECT_THAT(gate.Decide(figures).reason, HasSubstr("an adversary that knows all but one label"));
  const GateDecision raised = Gate("max_worst_case_auc_bound: 0.75 action: RAISE_NOISE").Decide(figures);
  EXPECT_EQ(raised.action, v1::RAISE_NOISE);
  EXPECT_EQ(raised.max_sum_kl, 0.005);
}

TEST(ReleaseGateTest, MayHoldBackUnlessItOnlyWarns) {
  EXPECT_FALSE(Gate("").can_block());
  EXPECT_FALSE(Gate("max_step_auc_bound: 0.595 max_run_auc_bound: 0.7 action: WARN").can_block());
  EXPECT_TRUE(Gate("max_run_auc_bound: 0.7 action: HALT").can_block());
  EXPECT_TRUE(Gate("max_measured_leak: 0.75 action: FREEZE_BOTTOM").can_block());
}

TEST(ReleaseGateTest, RaisesTheNoiseToExactlyTheStepsBound) {
  const ReleaseGate gate = Gate("max_step_auc_bound: 0.595 action: RAISE_NOISE");
  const GateDecision decision = gate.Decide({1});
  EXPECT_NEAR(decision.max_sum_kl, 0.04, 1e-9);
  EXPECT_EQ(gate.Decide({decision.max_sum_kl}).action, v1::RELEASE);
}

TEST(ReleaseGateTest, RaisesTheNoiseToHalfOfWhatTheMostExposedExampleHasLeft) {
  const GateDecision decision = Gate("max_run_auc_bound: 0.7 action: RAISE_NOISE").Decide({0.3, 0.35});
  EXPECT_EQ(decision.action, v1::RAISE_NOISE);
  EXPECT_NEAR(decision.max_sum_kl, (kSumKlAt07 - 0.35) / 2, 1e-12);
}

TEST(ReleaseGateTest, RaisesTheNoiseToHalfTheDivergenceForAMeasuredLeak) {
  EXPECT_EQ(Gate("max_measured_leak: 0.6 action: RAISE_NOISE").Decide({0.3, 0, 0.7}).max_sum_kl, 0.15);
}

TEST(ReleaseGateTest, RaisesTheNoiseForTheStrictestOfSeveralLimits) {
  const GateDecision decision =
      Gate("max_step_auc_bound: 0.595 max_run_auc_bound: 0.7 max_measured_leak: 0.6 action: RAISE_NOISE")
          .Decide({0.9, kSumKlAt07 - 0.02, 0.7});
  EXPECT_EQ(decision.action, v1::RAISE_NOISE);
  EXPECT_NEAR(decision.max_sum_kl, 0.01, 1e-12);
}

TEST(ReleaseGateTest, FreezesWhereNothingIsLeftToRaiseTheNoiseTo) {
  const ReleaseGate run = Gate("max_run_auc_bound: 0.7 action: RAISE_NOISE");
  EXPECT_EQ(run.Decide({0.1, kSumKlAt07 + 0.1}).action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(run.Decide({0.1, kInfinity}).action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(Gate("max_step_auc_bound: 0.5 action: RAISE_NOISE").Decide({0.1}).action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(Gate("max_measured_leak: 0.6 action: RAISE_NOISE").Decide({kNan, 0, 0.7}).action, v1::FREEZE_BOTTOM);
}

TEST(ReleaseGateTest, FreezesAfterSixteenRaises) {
  const ReleaseGate gate = Gate("max_measured_leak: 0.6 action: RAISE_NOISE");
  EXPECT_EQ(gate.Decide({0.1, 0, 0.7, 15}).action, v1::RAISE_NOISE);
  EXPECT_EQ(gate.Decide({0.1, 0, 0.7, 16}).action, v1::FREEZE_BOTTOM);
}

TEST(ReleaseGateTest, RunBudgetIsALimitWithAnActionOfItsOwn) {
  const std::string budget = "marvell { run_budget { max_run_auc_bound: 0.7 planned_epochs: 2 when_spent: ";
  const double spendable = (1 - kSafetyShare) * kSumKlAt07;
  const ReleaseFigures spent = {0.1, spendable - 0.05};
  EXPECT_EQ(Gate("", budget + "FREEZE_BOTTOM } }").Decide(spent).action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(Gate("", budget + "HALT } }").Decide(spent).action, v1::HALT);
  const GateDecision raised = Gate("", budget + "RAISE_NOISE } }").Decide(spent);
  EXPECT_EQ(raised.action, v1::RAISE_NOISE);
  EXPECT_NEAR(raised.max_sum_kl, 0.025, 1e-12);
  EXPECT_EQ(Gate("", budget + "HALT } }").Decide({0.1, spendable - 0.11}).action, v1::RELEASE);
}

TEST(ReleaseGateTest, FreezesAfterTheEpochsThatAreReleased) {
  const ReleaseGate gate = Gate("", "gaussian_label_dp { sigma: 2 released_epochs: 2 }");
  EXPECT_TRUE(gate.can_block());
  ReleaseFigures figures = {0.1, 0, 0.5, 0, 0.25};
  for (const uint32_t epoch : {0U, 1U}) {
    figures.epoch = epoch;
    EXPECT_EQ(gate.Decide(figures).action, v1::RELEASE);
  }
  figures.epoch = 2;
  EXPECT_EQ(gate.Decide(figures).action, v1::FREEZE_BOTTOM);
  EXPECT_EQ(gate.Decide(figures).reason, "epoch 3, released up to epoch 2");
  EXPECT_EQ(Gate("", "gaussian_label_dp { sigma: 2 }").Decide(figures).action, v1::RELEASE);
}

TEST(ReleaseGateTest, TheStricterOfTwoRunLimitsActsFirstAndTheGraverActionWins) {
  const ReleaseGate gate = Gate("max_run_auc_bound: 0.6 action: WARN", "marvell { run_budget { planned_epochs: 2 } }");
  EXPECT_EQ(gate.Decide({0.1, 0.3}).action, v1::WARN);
  const GateDecision decision = gate.Decide({0.1, 0.5});
  EXPECT_EQ(decision.action, v1::FREEZE_BOTTOM);
  EXPECT_THAT(decision.reason, HasSubstr("up to 0.6944"));
}

TEST(ReleaseGateTest, DivergenceOfTheWholeRunIsNotAddedToEarlierReleases) {
  const ReleaseGate gate = Gate("max_run_auc_bound: 0.7 action: HALT");
  EXPECT_EQ(gate.Decide({0.5, 0.5, 0.5, 0, 0.5}).action, v1::RELEASE);
  EXPECT_EQ(gate.Decide({0.5, 0, 0.5, 0, 0.56}).action, v1::HALT);
}

TEST(ReleaseGateTest, CreateFailsForNoiseThatCannotBeRaised) {
  for (const char* protection : {"none {}", "max_norm {}"}) {
    const absl::Status status = CreateGate("action: RAISE_NOISE", protection).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << protection;
    EXPECT_THAT(std::string(status.message()), HasSubstr("release.action: expected"));
    EXPECT_TRUE(CreateGate("action: FREEZE_BOTTOM", protection).ok()) << protection;
  }
  EXPECT_TRUE(CreateGate("action: RAISE_NOISE", "marvell { s: 4 }").ok());
}

TEST(ReleaseGateTest, CreateFailsForABudgetThatCannotBePlanned) {
  EXPECT_EQ(CreateGate("", "marvell { run_budget {} }").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReleaseGateTest, CreateFailsForAnActionThatIsNone) {
  for (const char* action : {"RELEASE", "GATE_ACTION_UNSPECIFIED"}) {
    const absl::Status status = CreateGate(std::string("action: ") + action, "iso { t: 1 }").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("found ") + action));
  }
}

TEST(ReleaseGateTest, CreateFailsForASpentBudgetThatKeepsOnReleasing) {
  for (const char* action : {"RELEASE", "WARN", "GATE_ACTION_UNSPECIFIED"}) {
    const std::string protection =
        std::string("marvell { run_budget { planned_epochs: 2 when_spent: ") + action + " } }";
    const absl::Status status = CreateGate("", protection).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("found ") + action));
  }
}

TEST(LeakageAccountantTest, AddsTheReleasesOfEachExample) {
  LeakageAccountant accountant(4);
  EXPECT_EQ(accountant.max_sum_kl(), 0);
  EXPECT_EQ(accountant.Release({0, 1}, 0.5), 0.5);
  EXPECT_EQ(accountant.Release({2, 3}, 0.25), 0.5);
  EXPECT_EQ(accountant.MaxOf({3}), 0.25);
  EXPECT_EQ(accountant.MaxOf({1, 3}), 0.5);
  EXPECT_EQ(accountant.Release({1, 2}, 0.5), 1);
  EXPECT_EQ(accountant.max_sum_kl(), 1);
}

// 0.1 is no float: rounded to the nearest, a sum of many could be too small.
TEST(LeakageAccountantTest, ASumIsNeverTooSmallAndTooLargeByAHairAtMost) {
  LeakageAccountant accountant(1);
  constexpr int kReleases = 1000;
  for (int i = 1; i <= kReleases; ++i) {
    const double counted = accountant.Release({0}, 0.1), exact = i * 0.1L;
    EXPECT_GE(counted, exact) << i;
    EXPECT_LE(counted, exact * (1 + i * kSumRounding)) << i;
  }
  EXPECT_EQ(accountant.MaxOf({0}), accountant.max_sum_kl());
  LeakageAccountant largest(1);
  EXPECT_EQ(largest.Release({0}, std::numeric_limits<double>::max()), std::numeric_limits<double>::infinity());
}

// The gate compares what is counted with the budget: its rounding must not have the last planned release refused.
TEST(LeakageAccountantTest, ARunBudgetLeavesRoomForTheRounding) {
  for (const int epochs : {1, 7, 3000}) {
    v1::GradientProtection::RunBudget budget;
    budget.set_max_run_auc_bound(0.7);
    budget.set_planned_epochs(epochs);
    budget.set_noise_growth_per_epoch(1);
    budget.set_when_spent(v1::HALT);
    LeakageAccountant accountant(1);
    const std::vector<double> planned = *PlanRunBudget(budget);
    for (const double share : planned) {
      (void)accountant.Release({0}, share);
    }
    EXPECT_LE(accountant.max_sum_kl(), SpendableSumKl(budget)) << epochs;
    EXPECT_GE(accountant.max_sum_kl(), (1 - 1e-3) * SpendableSumKl(budget)) << epochs;
  }
}

// What is stated of a whole run may be the very limit that it keeps.
TEST(LeakageAccountantTest, DivergenceOfTheWholeRunIsNotRounded) {
  LeakageAccountant accountant(1);
  EXPECT_EQ(accountant.ReleaseOfRun({0}, 0.1), 0.1);
  EXPECT_GE(accountant.MaxOf({0}), 0.1);
}

TEST(LeakageAccountantTest, DivergenceOfTheWholeRunCountsOnce) {
  LeakageAccountant accountant(3);
  for (int epoch = 0; epoch < 9; ++epoch) {
    EXPECT_EQ(accountant.ReleaseOfRun({0, 2}, 0.5), 0.5);
  }
  EXPECT_EQ(accountant.MaxOf({1}), 0);
  EXPECT_EQ(accountant.ReleaseOfRun({1}, kNan), kInfinity);
}

TEST(LeakageAccountantTest, UnknownDivergenceCountsAsEverything) {
  for (double unknown : {std::numeric_limits<double>::quiet_NaN(), -1.0, std::numeric_limits<double>::infinity()}) {
    LeakageAccountant accountant(2);
    EXPECT_EQ(accountant.Release({1}, unknown), std::numeric_limits<double>::infinity()) << unknown;
  }
}

TEST(DisclosedAucTest, OnlyAnOracleReadsTheAucItself) {
  EXPECT_EQ(DisclosedAuc(v1::ORACLE, 0.123456), 0.123456);
  EXPECT_FALSE(DisclosedAuc(v1::ORACLE, std::nullopt).has_value());
  for (const v1::DisclosureLevel disclosure : {v1::ROUNDED, v1::LABEL_SIDE_ONLY, v1::DISCLOSURE_LEVEL_UNSPECIFIED}) {
    EXPECT_FALSE(DisclosedAuc(disclosure, 0.9).has_value());
  }
  EXPECT_FALSE(DisclosedAuc(static_cast<v1::DisclosureLevel>(99), 0.9).has_value());
}

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
  // 0.94 of K = 2 Phi^-1(0.7)^2 = 0.5500: Phi(sqrt(0.5170 / 2)) = 0.6944, rounded upwards.
  EXPECT_THAT(outlook.text, HasSubstr("an AUC of at most 0.695"));
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

// e / (1 + e) = 0.7311 in all epochs together.
TEST(PolicyOutlookTest, FlipsCountOnce) {
  EXPECT_EQ(Foresee("label_dp { epsilon: 1 }", "max_run_auc_bound: 0.731 action: HALT", 5).first_epoch, 1);
  const PolicyOutlook outlook = Foresee("label_dp { epsilon: 1 }", "max_run_auc_bound: 0.7311 action: HALT", 5);
  EXPECT_EQ(outlook.action, v1::RELEASE);
  EXPECT_THAT(outlook.text, HasSubstr("an AUC of at most 0.732"));
  // With an account: mu = 2 Phi^-1(0.7311) = 1.232035, Phi(mu / sqrt(2)) = 0.80817 (Python's statistics.NormalDist).
  const std::vector<double> noise = {1.232035 * 1.232035};
  EXPECT_EQ(Foresee("label_dp { epsilon: 1 }", "max_run_auc_bound: 0.808 action: HALT", 5, noise).first_epoch, 1);
  EXPECT_EQ(Foresee("label_dp { epsilon: 1 }", "max_run_auc_bound: 0.8083 action: HALT", 5, noise).action, v1::RELEASE);
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
