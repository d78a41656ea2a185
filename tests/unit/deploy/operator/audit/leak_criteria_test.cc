#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "deploy/operator/audit/criteria.h"

#include "common/leakage/leak_figures.h"
#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class LeakCriteriaTest : public ::testing::Test {
 protected:
  PartyRecords& party() { return run_.parties.front(); }
  Finding Judge(const std::string& criterion, const std::string& policy = "") {
    return splitveil::Judge(run_, policy, criterion);
  }
  // Of the first limit that this MeasuredLeakLimit sets.
  Outcome MaxLeak(const std::string& limit) { return Judge("AUC: ", "max_measured_leak { " + limit + " }").outcome; }
  EpochLeakRow& LikelihoodRatio(int64_t epoch) { return party().epoch_leaks[epoch]; }
  EpochLeakRow& Remembered(int64_t epoch) { return party().epoch_leaks[2 + epoch]; }

  LedgerRun run_ = RecordedRun();
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
            "0.600, upper 95% limit 0.620");
  EXPECT_EQ(Judge("cumulative attacks", "max_measured_cumulative_auc: 0.5").found, "0.640, upper 95% limit 0.660");
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.5").found, "0.020, upper 95% limit 0.030");
  LikelihoodRatio(1).auc = 0.3;  // Inverted, as its far end is.
  LikelihoodRatio(1).auc_low = 0.28;
  LikelihoodRatio(1).auc_high = 0.32;
  EXPECT_EQ(Judge("last epoch's AUC", "max_measured_leak { attack: 'likelihood_ratio' max_pooled: 0.7 }").found,
            "0.700, upper 95% limit 0.720");
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
  EXPECT_THAT(Judge("mean AUC", "max_measured_leak { max_mean: 0.5 }").remedy, HasSubstr("Set gaussian_label_dp"));
  EXPECT_EQ(Judge("mean AUC", "max_measured_leak { max_mean: 1 }").remedy, "");
  EXPECT_THAT(Judge("p95 AUC", "max_measured_leak { attack: 'cosine' max_p95: 1 }").remedy,
              HasSubstr("Have it measured"));
  LikelihoodRatio(0).auc = 0.66;  // More of the same noise would not help.
  LikelihoodRatio(0).examples = int64_t{1} << 40;
  LikelihoodRatio(0).positives = int64_t{1} << 39;
  EXPECT_THAT(Judge("mean AUC", "max_measured_leak { max_mean: 0.5 }").remedy, HasSubstr("Set gaussian_label_dp"));
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

TEST_F(LeakCriteriaTest, TruePositiveRatesAreJudgedByTheUpperEnd) {
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.03").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.029").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 0.006").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 0.005").outcome, Outcome::kNotMet);
}

// Scores that rank nearly every positive below every negative, as they are planted: AUC 0.02. As it is, such a score
// finds no positive at 1% false alarms; inverted, it finds most.
TEST_F(LeakCriteriaTest, AnInvertedAttackFailsALimitOnTruePositiveRates) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> scores;
  std::vector<uint8_t> labels;
  for (int i = 0; i < 20000; ++i) {
    labels.push_back(i % 4 == 0 ? 1 : 0);
    scores.push_back(normal(random) - (labels.back() == 1 ? 3.0F : 0.0F));
  }
  const LeakFigures figures = *MeasureLeak(scores, labels);
  ASSERT_LT(figures.auc.value, 0.03);
  EpochLeakRow& row = LikelihoodRatio(1);
  row.auc = figures.auc.value;
  row.tpr_1pct = figures.tpr_at_1_percent_fpr.value;
  row.tpr_1pct_low = figures.tpr_at_1_percent_fpr.low;
  row.tpr_1pct_high = figures.tpr_at_1_percent_fpr.high;
  row.tpr_01pct = figures.tpr_at_01_percent_fpr.value;
  row.tpr_01pct_high = figures.tpr_at_01_percent_fpr.high;
  // Phi(Phi^-1(fpr) + 3).
  EXPECT_NEAR(row.tpr_1pct, 0.75, 0.05);
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 0.5").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 0.3").outcome, Outcome::kNotMet);
}

TEST_F(LeakCriteriaTest, TheWorstCasesTruePositiveRateIsHeldToItsOwnLimit) {
  EpochLeakRow& worst = party().epoch_leaks.back();
  ASSERT_EQ(worst.attack, "cumulative_conditional_likelihood_ratio");
  worst.tpr_1pct = 0.03;
  worst.tpr_1pct_high = 0.05;
  const std::string criterion = "worst case's true positive rate";
  EXPECT_EQ(Judge(criterion, "max_worst_case_tpr_at_1pct_fpr: 0.05").outcome, Outcome::kMet);
  EXPECT_EQ(Judge(criterion, "max_worst_case_tpr_at_1pct_fpr: 0.049").found, "0.030, upper 95% limit 0.050");
  party().epoch_leaks.clear();
  EXPECT_EQ(Judge(criterion, "max_worst_case_tpr_at_1pct_fpr: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, TruePositiveRatesNobodyMeasuredFail) {
  LikelihoodRatio(1).tpr_1pct_high = kNan;
  EXPECT_EQ(Judge("at 1% false positives", "max_measured_tpr_at_1pct_fpr: 1").outcome, Outcome::kNotMeasured);
  party().epoch_leaks.clear();
  EXPECT_EQ(Judge("at 0.1% false positives", "max_measured_tpr_at_01pct_fpr: 1").outcome, Outcome::kNotMeasured);
}

TEST_F(LeakCriteriaTest, TheShareAuditedIsThatOfTheLeastAuditedAttack) {
  EXPECT_EQ(Judge("audited").outcome, Outcome::kMet);
  party().leaks[1] = Series("nonlabel_party", "first", "spectral", std::vector<double>(17, 0.5));
  EXPECT_EQ(Judge("audited").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("audited").found, "0.850");
  EXPECT_EQ(Judge("audited", "min_audited_share: 0.85").outcome, Outcome::kMet);
}

TEST_F(LeakCriteriaTest, ARunOfWhichNothingLeftHasNoGradientsToAttack) {
  for (ProtectionRow& row : party().protections) {
    row.method = "frozen";
    row.gate = v1::FREEZE_BOTTOM;
  }
  party().leaks.clear();
  party().epoch_leaks.clear();
  for (const char* criterion : {"audited", "AUC: ", "cumulative attacks", "at 1% false positives"}) {
    const Finding finding =
        Judge(criterion,
              "max_measured_leak { max_mean: 0.6 max_pooled: 0.6 } max_measured_cumulative_auc: 0.6 "
              "max_measured_tpr_at_1pct_fpr: 0.02");
    EXPECT_EQ(finding.outcome, Outcome::kMet) << criterion;
    EXPECT_EQ(finding.found, "no gradient was released") << criterion;
  }
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
