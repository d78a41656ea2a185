#include "common/ledger/run_claim.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Of an audit that would have found half of the noise.
RunClaim Proved() {
  RunClaim claim;
  claim.protection = "gaussian_label_dp(sigma=1.348)";
  claim.run_auc_bound = claim.step_auc_bound_p95 = 0.7;
  claim.claim_check.emplace();
  claim.claim_check->claimed_mu = 0.742;
  claim.claim_check->mu_lower = 0.6;
  claim.claim_check->failing_mu_lower = 0.5;
  claim.claim_check->half_noise_mu_lower = 1.2;
  return claim;
}

TEST(RunClaimTest, OnlyWhatEnoughScoresWereHeldAgainstIsGuaranteed) {
  RunClaim claim = Proved();
  EXPECT_EQ(StandingOf(claim), RunStanding::kGuaranteed);
  claim.claim_check->half_noise_mu_lower = 0.74;
  EXPECT_EQ(StandingOf(claim), RunStanding::kUnchecked);
  claim.claim_check.reset();  // A label-side audit that was cut down, gradients that were clipped.
  EXPECT_EQ(StandingOf(claim), RunStanding::kUnchecked);
  claim.worst_case_tested = true;
  EXPECT_EQ(StandingOf(claim), RunStanding::kUnchecked);
}

TEST(RunClaimTest, ARunFailsByTheBoundThatHoldsNearlyAlways) {
  RunClaim claim = Proved();
  claim.claim_check->mu_lower = 0.75;  // Of honest runs, one in twenty.
  EXPECT_EQ(StandingOf(claim), RunStanding::kGuaranteed);
  claim.claim_check->failing_mu_lower = 0.75;
  EXPECT_EQ(StandingOf(claim), RunStanding::kBroken);
  claim.claim_check->half_noise_mu_lower = 0;
  EXPECT_EQ(StandingOf(claim), RunStanding::kBroken);
}

// A bound that is printed as 1.000.
TEST(RunClaimTest, ABoundNearOneClaimsNothing) {
  RunClaim claim = Proved();
  claim.run_auc_bound = claim.step_auc_bound_p95 = 0.9996;
  EXPECT_FALSE(claim.states_bound());
  EXPECT_EQ(StandingOf(claim), RunStanding::kNothingClaimed);
  claim.run_auc_bound = claim.step_auc_bound_p95 = kNan;
  EXPECT_EQ(StandingOf(claim), RunStanding::kNothingClaimed);
  claim.step_auc_bound_p95 = 0.9;
  EXPECT_FALSE(claim.states_run_bound());
  EXPECT_TRUE(claim.states_bound());
}

// A run whose steps nearly all allow anything is not held by the one that does not.
TEST(RunClaimTest, OneStepWithABoundSpeaksForNoRun) {
  std::vector<double> steps(40, 1.0);
  steps[7] = 0.6;
  EXPECT_EQ(StepAucBoundP95(steps), 1);
  std::vector<double> bounded(40, 0.6);
  bounded[7] = 0.9;
  EXPECT_EQ(StepAucBoundP95(bounded), 0.6);
  bounded[8] = bounded[9] = bounded[10] = kNan;  // More than 5% of the steps, and without a bound.
  EXPECT_EQ(StepAucBoundP95(bounded), 1);
  EXPECT_TRUE(std::isnan(StepAucBoundP95({})));
  RunClaim claim;
  claim.protection = "iso(t=1)";
  claim.worst_case_tested = true;
  claim.step_auc_bound_p95 = StepAucBoundP95(steps);
  EXPECT_EQ(StandingOf(claim), RunStanding::kNothingClaimed);
}

// As of noisy activations, whose gradients overlap by class, and which an attack reads at 1.000 all the same.
TEST(RunClaimTest, WithoutNoiseNothingIsClaimedWhateverTheClassesAllow) {
  RunClaim claim;
  claim.protection = "none";
  claim.step_auc_bound_p95 = 0.7;
  claim.worst_case_tested = true;
  EXPECT_FALSE(claim.states_bound());
  EXPECT_EQ(StandingOf(claim), RunStanding::kNothingClaimed);
  claim.run_auc_bound = 0.9;
  EXPECT_FALSE(claim.states_run_bound());
  EXPECT_EQ(StandingOf(claim), RunStanding::kNothingClaimed);
  claim.protection = "marvell(s=4)";
  EXPECT_EQ(StandingOf(claim), RunStanding::kHolds);
}

TEST(RunClaimTest, AStepIsBoundedByWhatEitherBoundAllows) {
  EXPECT_EQ(StepAucBound(0.8, kNan), 0.8);
  EXPECT_EQ(StepAucBound(1, std::numeric_limits<double>::infinity()), 1);
  EXPECT_NEAR(StepAucBound(1, 4), 0.5 * std::erfc(-1), 1e-12);  // Theorem 1 says nothing from 4 on.
  EXPECT_NEAR(StepAucBound(kNan, 4), 0.5 * std::erfc(-1), 1e-12);
  EXPECT_TRUE(std::isnan(StepAucBound(kNan, kNan)));
}

}  // namespace
}  // namespace splitveil
