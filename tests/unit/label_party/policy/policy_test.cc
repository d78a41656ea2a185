// What the label party lets out: the gate before a gradient leaves, the grant before an AUC does.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "label_party/policy/audit_grant.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

GateDecision Decide(double max_bound, v1::ReleasePolicy::Action action, double sum_kl) {
  v1::ReleasePolicy policy;
  policy.set_max_step_auc_bound(max_bound);
  policy.set_action(action);
  ProtectionReport report = {};
  report.sum_kl = sum_kl;
  return ReleaseGate(policy).Decide(report);
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
  ProtectionReport report = {};
  report.sum_kl = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ReleaseGate(v1::ReleasePolicy()).Decide(report).action, GateAction::kRelease);
}

TEST(AuditGrantTest, GivesWhatIsGrantedAndNoMore) {
  EXPECT_EQ(GrantedAuc(v1::ORACLE, 0.123456), 0.123456);
  EXPECT_NEAR(*GrantedAuc(v1::ROUNDED, 0.123456), 0.12, 1e-12);
  EXPECT_FALSE(GrantedAuc(v1::LABEL_SIDE_ONLY, 0.9).has_value());
}

TEST(AuditGrantTest, UnknownGrantGivesNothing) {
  EXPECT_FALSE(GrantedAuc(v1::GRANT_UNSPECIFIED, 0.9).has_value());
  EXPECT_FALSE(GrantedAuc(static_cast<v1::Grant>(99), 0.9).has_value());
}

}  // namespace
}  // namespace splitveil
