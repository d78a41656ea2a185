// What the label party lets out: the gate before a gradient leaves, the grant before an AUC does.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "label_party/policy/audit_grant.h"
#include "label_party/policy/leakage_accountant.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

GateDecision Decide(double max_bound, v1::ReleasePolicy::Action action, double sum_kl) {
  v1::ReleasePolicy policy;
  policy.set_max_step_auc_bound(max_bound);
  policy.set_action(action);
  return ReleaseGate(policy).Decide({sum_kl, sum_kl, 0.5});
}

TEST(ReleaseGateTest, ReleasesUpToTheBound) {
  // Theorem 1 at sumKL = 0.04: 1/2 + 0.2/2 - 0.04/8 = 0.595.
  const GateDecision decision = Decide(0.6, v1::ReleasePolicy::HALT, 0.04);
  EXPECT_EQ(decision.action, GateAction::kRelease);
  EXPECT_NEAR(decision.auc_bound, 0.595, 1e-12);
}

TEST(ReleaseGateTest, ActsAboveTheBound) {
  EXPECT_EQ(Decide(0.59, v1::ReleasePolicy::HALT, 0.04).action, GateAction::kHalt);
  EXPECT_EQ(Decide(0.59, v1::ReleasePolicy::WARN, 0.04).action, GateAction::kWarn);
}

TEST(ReleaseGateTest, NoDivergenceKnownCountsAsFullyExposed) {
  for (double sum_kl : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    const GateDecision decision = Decide(0.99, v1::ReleasePolicy::HALT, sum_kl);
    EXPECT_EQ(decision.auc_bound, 1) << sum_kl;
    EXPECT_EQ(decision.action, GateAction::kHalt) << sum_kl;
  }
}

TEST(ReleaseGateTest, DefaultPolicyNeverActs) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ReleaseGate(v1::ReleasePolicy()).Decide({infinity, infinity, 1}).action, GateAction::kRelease);
}

TEST(ReleaseGateTest, ActsWhenTheReleasesOfAnExampleAddUpBeyondTheRunsBudget) {
  v1::ReleasePolicy policy;
  policy.set_max_run_auc(0.7);
  policy.set_action(v1::ReleasePolicy::HALT);
  // Phi(sqrt(x / 2)) = 0.7 at x = 2 * 0.524400513^2 = 0.5500.
  EXPECT_EQ(ReleaseGate(policy).Decide({0.1, 0.549, 0.5}).action, GateAction::kRelease);
  const GateDecision decision = ReleaseGate(policy).Decide({0.1, 0.551, 0.5});
  EXPECT_EQ(decision.action, GateAction::kHalt);
  EXPECT_NE(decision.reason.find("remembers"), std::string::npos);
}

TEST(ReleaseGateTest, ActsOnTheMeasuredLeakWhateverTheBoundSays) {
  v1::ReleasePolicy policy;
  policy.set_max_measured_leak(0.75);
  policy.set_action(v1::ReleasePolicy::HALT);
  EXPECT_EQ(ReleaseGate(policy).Decide({0.01, 0.01, 0.74}).action, GateAction::kRelease);
  EXPECT_EQ(ReleaseGate(policy).Decide({0.01, 0.01, 0.76}).action, GateAction::kHalt);
  EXPECT_TRUE(ReleaseGate(policy).WantsMeasuredLeak());
  EXPECT_FALSE(ReleaseGate(v1::ReleasePolicy()).WantsMeasuredLeak());
}

TEST(LeakageAccountantTest, AddsTheReleasesOfEachExample) {
  LeakageAccountant accountant(4);
  EXPECT_EQ(accountant.max_sum_kl(), 0);
  EXPECT_EQ(accountant.Release({0, 1}, 0.5), 0.5);
  EXPECT_EQ(accountant.Release({2, 3}, 0.25), 0.5);
  EXPECT_EQ(accountant.MaxAfter({3}, 0.5), 0.75);
  EXPECT_EQ(accountant.max_sum_kl(), 0.5);  // Asking releases nothing.
  EXPECT_EQ(accountant.Release({1, 2}, 0.5), 1);
}

TEST(LeakageAccountantTest, UnknownDivergenceCountsAsEverything) {
  for (double unknown : {std::numeric_limits<double>::quiet_NaN(), -1.0, std::numeric_limits<double>::infinity()}) {
    LeakageAccountant accountant(2);
    EXPECT_EQ(accountant.Release({1}, unknown), std::numeric_limits<double>::infinity()) << unknown;
  }
}

TEST(AuditGrantTest, GivesWhatIsGrantedAndNoMore) {
  EXPECT_EQ(GrantedAuc(v1::ORACLE, 0.123456, 3), 0.123456);
  EXPECT_NEAR(*GrantedAuc(v1::ROUNDED, 0.123456, 0), 0.12, 1e-12);
  EXPECT_FALSE(GrantedAuc(v1::LABEL_SIDE_ONLY, 0.9, 0).has_value());
}

TEST(AuditGrantTest, RoundedAnswersOnceABatch) { EXPECT_FALSE(GrantedAuc(v1::ROUNDED, 0.9, 1).has_value()); }

TEST(AuditGrantTest, RoundedDoesNotTellThatABatchHasOneClass) {
  EXPECT_EQ(GrantedAuc(v1::ROUNDED, std::nullopt, 0), 0.5);
  EXPECT_FALSE(GrantedAuc(v1::ORACLE, std::nullopt, 0).has_value());
}

TEST(AuditGrantTest, UnknownGrantGivesNothing) {
  EXPECT_FALSE(GrantedAuc(v1::GRANT_UNSPECIFIED, 0.9, 0).has_value());
  EXPECT_FALSE(GrantedAuc(static_cast<v1::Grant>(99), 0.9, 0).has_value());
}

}  // namespace
}  // namespace splitveil
