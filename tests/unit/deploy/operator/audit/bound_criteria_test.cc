#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/config/text_config.h"
#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class BoundCriteriaTest : public ::testing::Test {
 protected:
  PartyRecords& party() { return run_.parties.front(); }
  Finding Judge(const std::string& criterion, const std::string& policy = "") {
    return splitveil::Judge(run_, policy, criterion);
  }
  EpochLeakRow& LikelihoodRatio(int64_t epoch) { return party().epoch_leaks[epoch]; }
  EpochLeakRow& Remembered(int64_t epoch) { return party().epoch_leaks[2 + epoch]; }

  LedgerRun run_ = RecordedRun();
};

// An AUC of so many examples that more would not change it.
void SetCertainly(EpochLeakRow& row, double auc) {
  row.auc = row.auc_low = row.auc_high = auc;
  row.examples = int64_t{1} << 40;
  row.positives = row.examples / 2;
}

TEST_F(BoundCriteriaTest, TheRunsBoundIsTheAccountants) {
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.72").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.72").where, "all releases at the cut layer");  // No attack's.
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.71").outcome, Outcome::kNotMet);
  EpochLeakRow spectral = Remembered(1);  // The peer's scores may come too late for a bound.
  spectral.attack = "cumulative_spectral";
  spectral.gaussian_auc_bound = kNan;
  party().epoch_leaks.push_back(spectral);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.72").outcome, Outcome::kMet);
  for (EpochLeakRow& row : party().epoch_leaks) {
    row.gaussian_auc_bound = kNan;
  }
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 1").outcome, Outcome::kNotMeasured);
}

// The figure is that of this run's releases, and the examples were released before.
TEST_F(BoundCriteriaTest, ARunThatResumesFromOthersIsNotJudgedByItsOwnBound) {
  party().record.run.resumed_from = "run-0 after epoch 5";
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.72").outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.71").outcome, Outcome::kNotMet);
}

TEST_F(BoundCriteriaTest, TheStepsBoundIsItsUpperQuantile) {
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kMet);
  party().protections[0].auc_bound = 0.9;  // One of twenty.
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kMet);
  party().protections[1].auc_bound = 0.9;
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kNotMet);
}

TEST_F(BoundCriteriaTest, AStepWithoutABoundCountsAsBoundedByOne) {
  party().protections[0].auc_bound = party().protections[1].auc_bound = kNan;
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.99").outcome, Outcome::kNotMet);
  party().protections[0].gate = party().protections[1].gate = v1::FREEZE_BOTTOM;  // They did not leave.
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.99").outcome, Outcome::kMet);
  party().protections.clear();
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(BoundCriteriaTest, ARunWithoutTheAccountantsFigureIsNotMeasured) {
  party().epoch_leaks.resize(2);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(BoundCriteriaTest, AnAttackBeyondItsBoundFails) {
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kMet);
  EXPECT_THAT(Judge("bound not exceeded").found, HasSubstr("not exceeded by the attacks run here"));
  SetCertainly(LikelihoodRatio(0), 0.66);
  const Finding finding = Judge("bound not exceeded");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(
      finding.found,
      "exceeded by Best guess knowing both classes (likelihood_ratio): lower 99.99% limit of its AUC 0.660, bound "
      "0.650");
  EXPECT_THAT(finding.remedy, HasSubstr("Set gaussian_label_dp"));
  EXPECT_EQ(finding.where, "the cut layer, epoch 1");
}

TEST_F(BoundCriteriaTest, WhatTheNoiseAllowsIsNotExceededWithinTheTolerance) {
  SetCertainly(LikelihoodRatio(0), 0.6549);
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kMet);
  SetCertainly(LikelihoodRatio(0), 0.6551);
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
}

TEST_F(BoundCriteriaTest, AProtectionThatStatesNoBoundFailsAndTheRemedyIsAnotherProtection) {
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = 1;
    row.sum_kl = std::numeric_limits<double>::infinity();
  }
  for (EpochLeakRow& row : party().epoch_leaks) {
    row.gaussian_auc_bound = 1;
  }
  const Finding finding = Judge("bound not exceeded");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.found, "no bound: the protection states none");
  EXPECT_THAT(finding.remedy, HasSubstr("Choose a protection that states one"));
}

TEST_F(BoundCriteriaTest, AScoreThatPointsTheWrongWayExceedsTheBoundAsWell) {
  SetCertainly(LikelihoodRatio(0), 0.34);
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
}

TEST_F(BoundCriteriaTest, TheLabelPartysOwnAlarmFails) {
  party().events.push_back({"", "bound_exceeded", "epoch 1: likelihood_ratio at cut: at least 0.71, allowed 0.70"});
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
  EXPECT_THAT(Judge("bound not exceeded").found, HasSubstr("(likelihood_ratio): see the run's events"));
}

TEST_F(BoundCriteriaTest, WithoutTheBestAttackNobodyKnowsWhetherTheBoundHolds) {
  party().epoch_leaks.resize(4);  // Those of the attack that nobody can exceed are the last.
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMeasured);
}

// The worst case of the first epoch says nothing of what the second released.
TEST_F(BoundCriteriaTest, TheBestAttackMustHaveSeenTheLastEpoch) {
  party().epoch_leaks.pop_back();
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMeasured);
  for (ProtectionRow& row : party().protections) {
    row.gate = row.step >= 10 ? v1::FREEZE_BOTTOM : row.gate;  // It released nothing.
  }
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kMet);
}

// A run that ends within its first batch has a row of a halt, and has sent a part all the same.
TEST_F(BoundCriteriaTest, APartOfABatchIsARelease) {
  party().protections.resize(1);
  party().protections[0].gate = v1::HALT;
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.6").outcome, Outcome::kMet);
  party().events.push_back({"", kFirstSliceSent, ""});
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.6").outcome, Outcome::kNotMet);
  EXPECT_FALSE(FiguresOf(run_).released_nothing());
}

// A run that ended before it wrote the rows of its last epoch does not promise the figure of the epoch before.
TEST_F(BoundCriteriaTest, TheBoundOfAnEarlierEpochIsNotTheRuns) {
  std::vector<EpochLeakRow>& rows = party().epoch_leaks;
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const EpochLeakRow& row) { return row.epoch == 1; }),
             rows.end());
  EXPECT_EQ(FiguresOf(run_).run_auc_bound, std::nullopt);
  party().all_runs = AllRunsRow{"0123456789abcdef", 20000, 0.81};
  EXPECT_EQ(FiguresOf(run_).run_auc_bound, 0.81);
}

TEST_F(BoundCriteriaTest, NamesTheAttacksThatExceedTheBoundUpToThree) {
  const EpochLeakRow row = LikelihoodRatio(0);
  for (const char* attack : {"norm", "spectral", "cosine", "direction"}) {
    party().epoch_leaks.push_back(row);
    party().epoch_leaks.back().attack = attack;
    SetCertainly(party().epoch_leaks.back(), 0.7);
  }
  EXPECT_THAT(
      Judge("bound not exceeded").found,
      HasSubstr("; and by Main direction of the batch (spectral), Direction of one known positive (cosine), 1 other"));
}

TEST_F(BoundCriteriaTest, ABoundForGaussianClassesIsNotProved) {
  const Finding finding = Judge("bound proved", "require_proved_bound: true");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.found, "not proved: that of marvell(s=4) is conditional");
  EXPECT_THAT(finding.remedy, HasSubstr("gaussian_label_dp"));
  party().record.run.protection = "gaussian_label_dp(sigma=1.3)";
  EXPECT_EQ(Judge("bound proved", "require_proved_bound: true").outcome, Outcome::kMet);
  const std::string bound =
      "AUC at most 0.720 over the whole run, for any adversary, beyond what both parties' features tell";
  EXPECT_EQ(Judge("bound proved", "require_proved_bound: true").found, "proved, not checked: " + bound);
  party().claim_check.emplace();
  party().claim_check->claimed_mu = 0.824;
  party().claim_check->half_noise_mu_lower = 1.4;
  EXPECT_EQ(Judge("bound proved", "require_proved_bound: true").found, "proved: " + bound);
  party().claim_check.reset();
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = row.sum_kl = kNan;
  }
  party().epoch_leaks.clear();
  EXPECT_EQ(Judge("bound proved", "require_proved_bound: true").found, "no bound: the protection states none");
}

// A peer that chooses its activations reads the label of a far row from the next batch at AUC 0.70 to 0.95, where the
// gate releases all and 0.57 is stated. No policy may call that met unless it says that it accepts such a bound.
TEST_F(BoundCriteriaTest, AConditionalBoundPassesOnlyWhereThePolicyAcceptsIt) {
  party().record.run.protection = "iso(t=6000)";
  const std::string limit = "max_run_auc_bound: 0.8 max_step_auc_bound_p95: 0.8 ";
  v1::AuditPolicy policy;
  ASSERT_TRUE(ParseTextConfig(limit, "policy", policy).ok());
  SetListDefaults(policy);
  EXPECT_FALSE(PolicyMet(JudgeRuns({run_}, policy)));  // Exit 10.
  const std::string proof = limit + "require_proved_bound: true";
  EXPECT_EQ(Judge("bound proved", proof).outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("bound per run", proof).outcome, Outcome::kOpen);
  EXPECT_THAT(Judge("bound per run", proof).found,
              HasSubstr("0.720 or more: nothing proved bounds what run run-1 (iso(t=6000)) released"));
  EXPECT_THAT(Judge("bound per run", proof).remedy, HasSubstr("Set gaussian_label_dp"));
  EXPECT_EQ(Judge("Theorem 1", proof).outcome, Outcome::kOpen);
  policy.set_require_proved_bound(false);
  const std::vector<RunVerdict> verdicts = JudgeRuns({run_}, policy);
  EXPECT_TRUE(PolicyMet(verdicts));
  EXPECT_THAT(VerdictSummary(verdicts), HasSubstr("not against a peer that reads a label from what it does to"));
  EXPECT_EQ(Judge("bound per run", limit).found, "0.720, only under its assumptions");
  EXPECT_EQ(Judge("Theorem 1", limit).found, "0.700, only under its assumptions");
  EXPECT_EQ(Judge("bound not exceeded", limit).found,
            "not exceeded by the attacks run here, by a partner that follows the protocol");
}

// A peer that remembers earlier runs adds them up.
TEST_F(BoundCriteriaTest, TheBoundIsThatOfAllRunsWhereAnAccountCountsThem) {
  const Finding alone = Judge("bound per run", "max_run_auc_bound: 0.75");
  EXPECT_EQ(alone.outcome, Outcome::kMet);
  party().record.run.resumed_from = "earlier";
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.75").outcome, Outcome::kNotMeasured);
  party().all_runs = AllRunsRow{"0123456789abcdef", 20000, 0.74};
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.75").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.75").where,
            "all releases of all runs up to this one, by privacy account 01234567");
  party().all_runs->auc_bound = 0.76;
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.75").outcome, Outcome::kNotMet);
}

// More noise in this run would not help: its own flips keep the limit, and those of the earlier run stay.
TEST_F(BoundCriteriaTest, WhatHelpsAgainstTwoStrengthsInOneAccountIsOneStrength) {
  party().record.run.protection = "label_dp(epsilon=0.5)";
  party().label_releases = {{"flip", 2'000'000, 1, 0.5}};
  for (EpochLeakRow& row : party().epoch_leaks) {
    row.gaussian_auc_bound = 0.623;
  }
  party().all_runs = AllRunsRow{"0123456789abcdef", 20000, 0.76};
  const Finding both = Judge("bound per run", "max_run_auc_bound: 0.7");
  EXPECT_EQ(both.outcome, Outcome::kNotMet);
  EXPECT_THAT(both.remedy, HasSubstr("the same epsilon or sigma in each"));
  const Finding own = Judge("bound per run", "max_run_auc_bound: 0.6");
  EXPECT_THAT(own.remedy, HasSubstr("Lower label_dp's epsilon"));
}

TEST_F(BoundCriteriaTest, AKilledRunIsHeldToTheNoiseThatItPlanned) {
  party().record.run.protection = "label_dp(epsilon=1)";
  party().epoch_leaks.clear();
  party().claim_check.reset();
  party().label_releases = {{"flip", 0, 1, 1}};
  const Finding bound = Judge("bound per run", "max_run_auc_bound: 0.75");
  EXPECT_EQ(bound.outcome, Outcome::kMet);
  EXPECT_EQ(bound.found, "0.732");
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.7").outcome, Outcome::kNotMet);
  EXPECT_THAT(Judge("bound proved", "require_proved_bound: true").found, HasSubstr("AUC at most 0.732"));
}

// Whatever the policy says: an empty one asks for it, too.
TEST_F(BoundCriteriaTest, ARunWhoseOwnScoresRefuteItsClaimFails) {
  ClaimCheckRow audit;
  audit.claimed_mu = 0.742;
  audit.mu_lower = 0.51;
  audit.failing_mu_lower = 0.4;
  audit.half_noise_mu_lower = 1.2;
  audit.confidence = 0.95;
  audit.failing_confidence = 0.9999;
  audit.test = "own";
  audit.examples = 20000;
  party().claim_check = audit;
  EXPECT_EQ(Judge("claimed mu").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("claimed mu").limit, "at most 0.742");
  EXPECT_EQ(Judge("claimed mu").found, "mu is at least 0.400 (99.99%; 0.510 at 95%) by 20000 examples");
  party().claim_check->mu_lower = 0.75;  // As of one honest run in twenty.
  EXPECT_EQ(Judge("claimed mu").outcome, Outcome::kMet);
  party().claim_check->half_noise_mu_lower = 0.7;
  EXPECT_EQ(Judge("claimed mu").found,
            "mu is at least 0.400 (99.99%; 0.750 at 95%) by 20000 examples, too few, or rounded too coarsely, to "
            "detect noise at half the claimed "
            "strength");
  party().claim_check->failing_mu_lower = 0.745;
  party().claim_check->half_noise_mu_lower = 1.2;
  EXPECT_EQ(Judge("claimed mu").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("claimed mu").found, "BROKEN: mu is at least 0.745 (99.99%; 0.750 at 95%) by 20000 examples");
  EXPECT_EQ(Judge("claimed mu", "require_no_bound_exceeded: false").outcome, Outcome::kNotMet);
  EXPECT_EQ(FiguresOf(run_).verdict(), PrivacyVerdict::kBroken);
}

// One answer everywhere: RESULT says a bound of 0.5.
TEST_F(BoundCriteriaTest, ARunOfWhichNothingLeftMeetsEveryBound) {
  party().record.run.protection = "gaussian_label_dp(sigma=1.3)";
  for (ProtectionRow& row : party().protections) {
    row.method = "frozen";
    row.gate = v1::FREEZE_BOTTOM;
    row.auc_bound = row.sum_kl = kNan;
  }
  party().epoch_leaks.clear();
  party().leaks.clear();
  for (const char* criterion : {"bound per run", "Theorem 1", "bound proved", "bound not exceeded"}) {
    const Finding finding =
        Judge(criterion, "max_run_auc_bound: 0.7 max_step_auc_bound_p95: 0.7 require_proved_bound: true");
    EXPECT_EQ(finding.outcome, Outcome::kMet) << criterion;
    EXPECT_EQ(finding.found, "no gradient was released") << criterion;
  }
}

TEST_F(BoundCriteriaTest, WithoutTheLabelPartysLedgerTheKindOfTheBoundIsNotGuessed) {
  party().record.run.role = "nonlabel_party";
  party().record.run.protection.clear();
  EXPECT_EQ(Judge("bound not exceeded").criterion, "bound not exceeded by an attack");
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMeasurable);
}

}  // namespace
}  // namespace splitveil
