#include "deploy/operator/audit/leak_criteria.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class LeakCriteriaTest : public testing::Test {
 protected:
  PartyRecords& party() { return run_.parties.front(); }
  Finding Judge(const std::string& criterion, const std::string& policy = "") {
    return splitveil::Judge(run_, policy, criterion);
  }
  // Of the first limit that this MeasuredLeakLimit sets.
  Outcome MaxLeak(const std::string& limit) { return Judge("AUC: ", "max_measured_leak { " + limit + " }").outcome; }
  EpochLeakRow& LikelihoodRatio(int64_t epoch) { return party().epoch_leaks[epoch]; }
  EpochLeakRow& Remembered(int64_t epoch) { return party().epoch_leaks[2 + epoch]; }

  RunRecords run_ = RecordedRun();
};

TEST_F(LeakCriteriaTest, MeanLeakIsHeldToItsLimit) {
  EXPECT_EQ(MaxLeak("max_mean: 0.551"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("max_mean: 0.549"), Outcome::kNotMet);
  const Finding finding = Judge("mean AUC", "max_measured_leak { max_mean: 0.5 }");
  EXPECT_EQ(finding.found, "0.550");
  EXPECT_EQ(finding.where, "Gradient length (norm) at the cut layer, scored by the label party");
}

TEST_F(LeakCriteriaTest, LeakOfNineteenBatchesInTwentyIsHeldToItsLimit) {
  EXPECT_EQ(MaxLeak("max_p95: 0.58"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("max_p95: 0.579"), Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, AScoreThatPointsTheWrongWayLeaksAsMuch) {
  party().leaks[0] = Series("label_party", "cut", "norm", std::vector<double>(20, 0.2));
  EXPECT_EQ(MaxLeak("max_mean: 0.79"), Outcome::kNotMet);
  EXPECT_EQ(MaxLeak("max_p95: 0.79"), Outcome::kNotMet);
  LikelihoodRatio(1).auc_low = 0.2;
  EXPECT_EQ(MaxLeak("max_pooled: 0.79"), Outcome::kNotMet);
}

// Each batch is inverted by itself: the mean of an attack that changes its direction is no 0.5.
TEST_F(LeakCriteriaTest, AnAttackThatChangesItsDirectionIsHeldToItsLimit) {
  std::vector<double> changing;
  for (int step = 0; step < 20; ++step) {
    changing.push_back(step % 2 == 0 ? 0.8 : 0.2);
  }
  party().leaks[0] = Series("label_party", "cut", "norm", changing);
  EXPECT_EQ(MaxLeak("max_mean: 0.79"), Outcome::kNotMet);
  EXPECT_EQ(Judge("mean AUC", "max_measured_leak { max_mean: 0.6 }").found, "0.800");
}

TEST_F(LeakCriteriaTest, AFarEndIsSaidToBeOne) {
  EXPECT_EQ(Judge("last epoch's AUC", "max_measured_leak { attack: 'likelihood_ratio' max_pooled: 0.7 }").found,
            "0.620: upper 95% limit of 0.600");
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.5").found, "0.660: upper 95% limit of 0.640");
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.5").found,
            "0.030: upper 95% limit of 0.020");
  LikelihoodRatio(1).auc = 0.3;  // Inverted, as its far end is.
  LikelihoodRatio(1).auc_low = 0.28;
  LikelihoodRatio(1).auc_high = 0.32;
  EXPECT_EQ(Judge("last epoch's AUC", "max_measured_leak { attack: 'likelihood_ratio' max_pooled: 0.7 }").found,
            "0.720: upper 95% limit of 0.700");
}

TEST_F(LeakCriteriaTest, PooledLeakIsJudgedByTheFarEndAfterTheLastEpoch) {
  EXPECT_EQ(MaxLeak("attack: 'likelihood_ratio' max_pooled: 0.62"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("attack: 'likelihood_ratio' max_pooled: 0.61"), Outcome::kNotMet);
  LikelihoodRatio(0).auc_high = 0.9;  // Not the last epoch.
  EXPECT_EQ(MaxLeak("attack: 'likelihood_ratio' max_pooled: 0.62"), Outcome::kMet);
}

TEST_F(LeakCriteriaTest, TheCriterionNamesTheAttackAndTheFindingDoesNotRepeatIt) {
  const Finding finding = Judge("mean AUC", "max_measured_leak { attack: 'norm' layer: 'cut' max_mean: 0.5 }");
  EXPECT_EQ(finding.criterion, "mean AUC: Gradient length (norm) at the cut layer");
  EXPECT_EQ(finding.where, "the cut layer, scored by the label party");
}

TEST_F(LeakCriteriaTest, AFailureSaysWhatHelpsAndNothingElseDoes) {
  EXPECT_THAT(Judge("mean AUC", "max_measured_leak { max_mean: 0.5 }").remedy, HasSubstr("Raise marvell's s"));
  EXPECT_EQ(Judge("mean AUC", "max_measured_leak { max_mean: 1 }").remedy, "");
  EXPECT_THAT(Judge("p95 AUC", "max_measured_leak { attack: 'cosine' max_p95: 1 }").remedy,
              HasSubstr("Have it measured"));
  LikelihoodRatio(0).auc_low = 0.66;  // More of the same noise would not help.
  EXPECT_THAT(Judge("mean AUC", "max_measured_leak { max_mean: 0.5 }").remedy, HasSubstr("more s alone does not"));
}

TEST_F(LeakCriteriaTest, AFigureThatRoundsToItsLimitShowsMoreDigits) {
  party().leaks[0] = Series("label_party", "cut", "norm", std::vector<double>(20, 0.5502));
  EXPECT_EQ(Judge("mean AUC", "max_measured_leak { max_mean: 0.55 }").found, "0.550200");
}

TEST_F(LeakCriteriaTest, ALimitHoldsForItsLayersAndAttacksOnly) {
  EXPECT_EQ(MaxLeak("layer: 'first' max_mean: 0.54"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("layer: 'c*' max_mean: 0.54"), Outcome::kNotMet);
  EXPECT_EQ(MaxLeak("attack: 'spec*' max_mean: 0.54"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("attack: 'nor?' max_mean: 0.54"), Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, AnAttackThatWasNotMeasuredFails) {
  EXPECT_EQ(MaxLeak("attack: 'cosine' max_mean: 1"), Outcome::kNotMeasured);
  EXPECT_EQ(MaxLeak("layer: 'third' max_p95: 1"), Outcome::kNotMeasured);
  // Where: a place, or nothing.
  EXPECT_EQ(Judge("p95 AUC", "max_measured_leak { layer: 'third' max_p95: 1 }").found,
            "not measured: no such attack recorded");
  EXPECT_EQ(Judge("p95 AUC", "max_measured_leak { layer: 'third' max_p95: 1 }").where, "");
  EXPECT_EQ(MaxLeak("attack: 'model_completion' max_pooled: 1"), Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, AnAgreedAttackThatWasNotRecordedFails) {
  party().record.run.config_json = R"({"agreement":{"audit":{"layers":["cut","first"],"attacks":["NORM"]}}})";
  const Finding finding = Judge("mean AUC", "max_measured_leak { max_mean: 1 }");
  EXPECT_EQ(finding.outcome, Outcome::kNotMeasured);
  EXPECT_EQ(finding.found, "not measured");
  EXPECT_EQ(finding.where, "Gradient length (norm) at layer \"first\"");
  EXPECT_EQ(MaxLeak("layer: 'cut' max_mean: 1"), Outcome::kMet);
  EXPECT_EQ(Judge("audited").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, AgreedAttacksWithoutBatchesAreNotAskedForBatches) {
  party().record.run.config_json =
      R"({"agreement":{"audit":{"layers":["cut"],"attacks":["NORM","CUMULATIVE_SPECTRAL"]}}})";
  EXPECT_EQ(MaxLeak("max_mean: 1"), Outcome::kMet);
  EXPECT_EQ(MaxLeak("max_pooled: 1"), Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, AgreedAttacksOnActivationsAreAskedForAtTheCutOnly) {
  party().record.run.config_json =
      R"({"agreement":{"audit":{"layers":["cut","first"],"attacks":["ACTIVATION_CLUSTERS"]}}})";
  party().leaks.push_back(Series("nonlabel_party", "cut", "activation_clusters", std::vector<double>(20, 0.5)));
  EXPECT_EQ(MaxLeak("max_mean: 1"), Outcome::kMet);
}

TEST_F(LeakCriteriaTest, AgreedHintAttacksAreAskedForWithEveryAgreedHintCount) {
  party().record.run.config_json =
      R"({"agreement":{"audit":{"layers":["cut"],"attacks":["HINT_DISTANCE"],"hint_counts":[1,2]}}})";
  party().leaks.push_back(Series("nonlabel_party", "cut", "hint_distance_1", std::vector<double>(20, 0.5)));
  EXPECT_EQ(MaxLeak("max_mean: 1"), Outcome::kNotMeasured);
  EXPECT_EQ(Judge("mean AUC", "max_measured_leak { max_mean: 1 }").where,
            "Nearness to 2 known positives (hint_distance_2) at the cut layer");
  party().leaks.push_back(Series("nonlabel_party", "cut", "hint_distance_2", std::vector<double>(20, 0.5)));
  EXPECT_EQ(MaxLeak("max_mean: 1"), Outcome::kMet);
}

TEST_F(LeakCriteriaTest, LabelsThatWereGivenAreToBeScored) {
  party().record.run.config_json = R"({"agreement":{"audit":{"auxiliary_labels":0}}})";
  EXPECT_NE(MaxLeak("attack: 'model_*' max_pooled: 1"), Outcome::kMet);  // Nothing of that name is there.
  party().record.run.config_json = R"({"agreement":{"audit":{"auxiliary_labels":100}}})";
  EXPECT_EQ(MaxLeak("max_pooled: 1"), Outcome::kNotMeasured);
  EXPECT_EQ(Judge("AUC: ", "max_measured_leak { max_pooled: 1 }").where,
            "Completed bottom model (model_completion) at the cut layer");
}

TEST_F(LeakCriteriaTest, AConfigurationThatIsNoJsonAgreesOnNothing) {
  for (const char* config : {"", "{oops", "[]", R"({"agreement":7})", R"({"agreement":{"audit":{"layers":[1]}}})"}) {
    party().record.run.config_json = config;
    EXPECT_EQ(MaxLeak("max_mean: 0.6"), Outcome::kMet) << config;
  }
}

TEST_F(LeakCriteriaTest, BatchesOfOneClassAreNotMeasured) {
  party().leaks[0] = Series("label_party", "cut", "norm", {});
  EXPECT_EQ(MaxLeak("attack: 'norm' max_mean: 1"), Outcome::kNotMeasured);
  LikelihoodRatio(1).auc = LikelihoodRatio(1).auc_low = LikelihoodRatio(1).auc_high = kNan;
  EXPECT_EQ(MaxLeak("attack: 'likelihood_ratio' max_pooled: 1"), Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, AFigureAboveItsLimitOutweighsOneThatIsMissing) {
  party().leaks[1] = Series("nonlabel_party", "first", "spectral", {});
  EXPECT_EQ(MaxLeak("max_mean: 0.54"), Outcome::kNotMet);
  EXPECT_EQ(MaxLeak("max_mean: 0.6"), Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, FeaturesAloneAreNoLeakUnlessNamed) {
  party().record.run.config_json.clear();
  EpochLeakRow baseline = LikelihoodRatio(1);
  baseline.attack = "features_only";
  baseline.auc_high = baseline.tpr_1pct_high = 0.95;
  party().epoch_leaks.push_back(baseline);
  EXPECT_EQ(MaxLeak("max_pooled: 0.7"), Outcome::kMet);
  EXPECT_EQ(Judge("1% false positives", "max_measured_tpr_at_1pct_fpr: 0.1").outcome, Outcome::kMet);
  EXPECT_EQ(MaxLeak("attack: 'features_only' max_pooled: 0.7"), Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, WhatRemembersIsJudgedAfterTheLastEpoch) {
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.66").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.65").outcome, Outcome::kNotMet);
  party().epoch_leaks.pop_back();  // Epoch 2 is missing.
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, NothingThatRemembersIsNotMeasured) {
  party().epoch_leaks.resize(2);
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 1").outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, EpochsWithoutReleasesNeedNoFigures) {
  for (size_t step = 10; step < 20; ++step) {
    party().protections[step].gate = v1::FREEZE_BOTTOM;
  }
  party().epoch_leaks.erase(party().epoch_leaks.begin() + 3);
  party().epoch_leaks.erase(party().epoch_leaks.begin() + 1);
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.66").outcome, Outcome::kMet);
  party().protections[10].gate = v1::RELEASE;
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.66").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, TheRunsBoundIsTheAccountants) {
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
TEST_F(LeakCriteriaTest, ARunThatResumesFromOthersIsNotJudgedByItsOwnBound) {
  party().record.run.resumed_from = "run-0 after epoch 5";
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.72").outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge("bound per run", "max_run_auc_bound: 0.71").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, TheStepsBoundIsItsUpperQuantile) {
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kMet);
  party().protections[0].auc_bound = 0.9;  // One of twenty.
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kMet);
  party().protections[1].auc_bound = 0.9;
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.7").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, AStepWithoutABoundCountsAsBoundedByOne) {
  party().protections[0].auc_bound = party().protections[1].auc_bound = kNan;
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.99").outcome, Outcome::kNotMet);
  party().protections[0].gate = party().protections[1].gate = v1::FREEZE_BOTTOM;  // They did not leave.
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 0.99").outcome, Outcome::kMet);
  party().protections.clear();
  EXPECT_EQ(Judge("Theorem 1", "max_step_auc_bound_p95: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, TruePositiveRatesAreJudgedByTheUpperEnd) {
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.03").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.029").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 0.006").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 0.005").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, TruePositiveRatesNobodyMeasuredFail) {
  LikelihoodRatio(1).tpr_1pct_high = kNan;
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 1").outcome, Outcome::kNotMeasured);
  party().epoch_leaks.clear();
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, AnAttackBeyondItsBoundFails) {
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("bound not exceeded").found, "not exceeded by the attacks run here");
  LikelihoodRatio(0).auc_low = 0.66;
  const Finding finding = Judge("bound not exceeded");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.found,
            "exceeded by Best guess knowing both classes (likelihood_ratio): lower 95% limit of its AUC 0.660, bound "
            "0.650");
  EXPECT_THAT(finding.remedy, HasSubstr("orthogonal_noise_ratio"));
  EXPECT_EQ(finding.where, "the cut layer, epoch 1");
}

TEST_F(LeakCriteriaTest, WhatTheNoiseAllowsIsNotExceededWithinTheTolerance) {
  LikelihoodRatio(0).auc_low = 0.6549;
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kMet);
  LikelihoodRatio(0).auc_low = 0.6551;
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, AProtectionThatStatesNoBoundFailsAndTheRemedyIsAnotherProtection) {
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = 1;
  }
  for (EpochLeakRow& row : party().epoch_leaks) {
    row.gaussian_auc_bound = 1;
  }
  const Finding finding = Judge("bound not exceeded");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_EQ(finding.found, "no bound: the protection states none");
  EXPECT_THAT(finding.remedy, HasSubstr("Choose a protection that states one"));
}

TEST_F(LeakCriteriaTest, AScoreThatPointsTheWrongWayExceedsTheBoundAsWell) {
  LikelihoodRatio(0).auc_low = 0.3;
  LikelihoodRatio(0).auc_high = 0.34;
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, TheLabelPartysOwnAlarmFails) {
  party().events.push_back({"", "bound_exceeded", "epoch 1: likelihood_ratio at cut: at least 0.71, allowed 0.70"});
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMet);
  EXPECT_THAT(Judge("bound not exceeded").found, HasSubstr("(likelihood_ratio): see the run's events"));
}

TEST_F(LeakCriteriaTest, WithoutTheBestAttackNobodyKnowsWhetherTheBoundHolds) {
  party().epoch_leaks.resize(4);  // Those of the attack that nobody can exceed are the last.
  EXPECT_EQ(Judge("bound not exceeded").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, TheShareAuditedIsThatOfTheLeastAuditedAttack) {
  EXPECT_EQ(Judge("audited").outcome, Outcome::kMet);
  party().leaks[1] = Series("nonlabel_party", "first", "spectral", std::vector<double>(17, 0.5));
  EXPECT_EQ(Judge("audited").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("audited").found, "0.850");
  EXPECT_EQ(Judge("audited", "min_audited_share: 0.85").outcome, Outcome::kMet);
}

TEST_F(LeakCriteriaTest, AnUnauditedRunFails) {
  party().leaks.clear();
  party().record.run.config_json.clear();
  EXPECT_EQ(Judge("audited", "min_audited_share: 0").outcome, Outcome::kNotMeasured);
  party() = RecordedRun().parties.front();
  party().protections.clear();
  EXPECT_EQ(Judge("audited", "min_audited_share: 0").outcome, Outcome::kNotMeasured);
}

TEST(MatchesGlobTest, MatchesAsTheShellDoes) {
  for (const char* pattern : {"*", "norm", "n*", "*m", "n??m", "*o*", "n*o*r*m", "****", "norm*"}) {
    EXPECT_TRUE(MatchesGlob(pattern, "norm")) << pattern;
  }
  for (const char* pattern : {"", "nor", "norma", "?", "n?m", "*x*", "N*", "norm?"}) {
    EXPECT_FALSE(MatchesGlob(pattern, "norm")) << pattern;
  }
  EXPECT_TRUE(MatchesGlob("", ""));
  EXPECT_TRUE(MatchesGlob("*", ""));
  EXPECT_FALSE(MatchesGlob("?", ""));
  EXPECT_TRUE(MatchesGlob("*ab", "aaaab"));
}

}  // namespace
}  // namespace splitveil
