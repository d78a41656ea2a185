#include "deploy/operator/records/ledger_figures.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/figures/figure_words.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

EpochLeakRow Row(int64_t epoch, const std::string& attack, double auc, double bound) {
  EpochLeakRow row;
  row.epoch = epoch;
  row.observer = "label_party";
  row.layer = "cut";
  row.attack = attack;
  row.examples = 40'960;
  row.positives = 10'240;
  row.auc = auc;
  row.auc_low = auc - 0.01;
  row.auc_high = auc + 0.01;
  row.gaussian_auc_bound = bound;
  return row;
}

class LedgerFiguresTest : public ::testing::Test {
 protected:
  LedgerFiguresTest() {
    PartyRecords& party = run_.parties.emplace_back();
    party.record.run.role = "label_party";
    for (int64_t step = 0; step < 4; ++step) {
      party.steps.push_back({step, 0, step, 1024, 0.5, 0.1, 0, 0});
      ProtectionRow row = {step, "marvell", 0, 0, 0, 0.25, 1, 0, 0, 0, 0, 0.3, 0.7, v1::RELEASE};
      party.protections.push_back(row);
    }
    AddSeries("norm", {0.55, 0.55, 0.55, 0.55});
    AddSeries("residual_norm", {0.2, 0.8, 0.3, 0.1});  // Mean near guessing, single batches not.
    party.epoch_leaks = {Row(0, "norm", 0.55, 0.65), Row(0, "cumulative_direction", 0.7, 0.75)};
  }
  void AddSeries(const std::string& attack, std::vector<double> aucs) {
    LeakSeries series = {"nonlabel_party", "cut", attack, {0, 1, 2, 3}, std::move(aucs), {}};
    series.summary = SummarizeLeak(series.aucs);
    party().leaks.push_back(series);
  }
  std::string Advantage() {
    const RunFigures figures = FiguresOf(run_);
    return AdvantageWords(figures.practical(), figures);
  }
  PartyRecords& party() { return run_.parties.front(); }

  LedgerRun run_;
};

TEST_F(LedgerFiguresTest, TheStrongestIsInvertedAndCountsItsWorstBatches) {
  const RunFigures ranking = FiguresOf(run_);
  EXPECT_EQ(ranking.strongest()->attack, "residual_norm");
  EXPECT_DOUBLE_EQ(ranking.strongest()->auc(), 0.9);
  EXPECT_NEAR(ranking.guessing->p95, 0.541, 0.001);
  EXPECT_NEAR(ranking.guessing->mean, 0.517, 0.001);
}

TEST_F(LedgerFiguresTest, AnAttackOverTheEpochsCountsAsMuch) {
  party().epoch_leaks[1] = Row(0, "cumulative_direction", 0.05, 0.99);
  EXPECT_EQ(FiguresOf(run_).strongest()->attack, "cumulative_direction");
  EXPECT_DOUBLE_EQ(FiguresOf(run_).strongest()->auc(), 0.95);
}

TEST_F(LedgerFiguresTest, TruePositiveRatesAreThoseOfTheLastEpoch) {
  EXPECT_FALSE(FiguresOf(run_).strongest()->tpr_1pct().has_value());  // It scored batches alone.
  party().epoch_leaks = {Row(0, "cumulative_direction", 0.93, 0.99), Row(1, "cumulative_direction", 0.95, 0.99)};
  party().epoch_leaks[0].tpr_1pct = 0.2;
  party().epoch_leaks[1].tpr_1pct = 0.3;
  party().epoch_leaks[1].tpr_01pct = 0.04;
  EXPECT_EQ(FiguresOf(run_).strongest()->tpr_1pct(), 0.3);
  EXPECT_EQ(FiguresOf(run_).strongest()->tpr_01pct(), 0.04);
}

TEST_F(LedgerFiguresTest, SideInformationMakesAFigureOfItsOwn) {
  const RunFigures ranking = FiguresOf(run_);
  EXPECT_EQ(ranking.practical()->attack, "residual_norm");
  EXPECT_EQ(ranking.with_side_information()->attack, "cumulative_direction");  // Knows the means of both classes.
  EXPECT_DOUBLE_EQ(ranking.with_side_information()->auc(), 0.7);
  AddSeries("cosine", {0.95, 0.95, 0.95, 0.95});
  EXPECT_EQ(FiguresOf(run_).practical()->attack, "residual_norm");
  EXPECT_EQ(FiguresOf(run_).with_side_information()->attack, "cosine");
  EXPECT_EQ(FiguresOf(run_).strongest()->attack, "cosine");
}

TEST_F(LedgerFiguresTest, OfOneKindAloneThatIsTheStrongest) {
  party().leaks.clear();
  party().epoch_leaks = {Row(0, "direction", 0.6, 0.65)};
  EXPECT_EQ(FiguresOf(run_).practical(), nullptr);
  EXPECT_EQ(FiguresOf(run_).strongest()->attack, "direction");
  party().epoch_leaks = {Row(0, "norm", 0.6, 0.65)};
  EXPECT_EQ(FiguresOf(run_).strongest()->attack, "norm");
}

// 29 positives in a batch make a p95 of 0.9 of an attack that reads nothing: over all examples it is none.
TEST_F(LedgerFiguresTest, TheAdvantageOverFeaturesIsOfAllExamplesWithIntervals) {
  party().epoch_leaks.push_back(Row(0, "residual_norm", 0.53, kNan));
  party().epoch_leaks.push_back(Row(0, "features_only", 0.6, kNan));
  const RunFigures figures = FiguresOf(run_);
  EXPECT_EQ(figures.practical()->attack, "residual_norm");
  EXPECT_EQ(figures.practical_pooled()->attack, "norm") << "0.55 over all examples";
  EXPECT_EQ(AdvantageWords(figures.practical_pooled(), figures),
            "0.050 below Features alone, AUC 0.600 (over all examples; 95% intervals 0.540 to 0.560 against 0.590 to "
            "0.610)");
  // Ranks the other way round: as an adversary would invert it, the interval with it.
  party().epoch_leaks.back().auc = 0.35;
  party().epoch_leaks.back().auc_low = 0.33;
  party().epoch_leaks.back().auc_high = 0.38;
  const AucInterval inverted = FiguresOf(run_).baseline()->pooled();
  EXPECT_DOUBLE_EQ(inverted.auc, 0.65);
  EXPECT_DOUBLE_EQ(inverted.low, 0.62);
  EXPECT_DOUBLE_EQ(inverted.high, 0.67);
}

// No bound is about it, so it must not stand where a bound's state stands beside it.
TEST_F(LedgerFiguresTest, WhatReadsNoGradientIsNeverTheStrongest) {
  AddSeries("activation_clusters", {0.97, 0.97, 0.97, 0.97});
  const RunFigures ranking = FiguresOf(run_);
  EXPECT_EQ(ranking.strongest()->attack, "residual_norm");
  EXPECT_EQ(ranking.no_gradient()->attack, "activation_clusters");
  EXPECT_DOUBLE_EQ(ranking.no_gradient()->auc(), 0.97);
  EXPECT_THAT(VerdictLines(ranking).back(), HasSubstr("without any gradient: Two groups of activations"));
}

TEST_F(LedgerFiguresTest, LabelsThatWereGivenMakeNoStrongestAttack) {
  party().epoch_leaks.push_back(Row(0, "model_completion", 0.99, kNan));
  EXPECT_EQ(FiguresOf(run_).strongest()->attack, "residual_norm");
  party().leaks.clear();
  party().epoch_leaks = {Row(0, "model_completion", 0.99, kNan)};
  EXPECT_EQ(FiguresOf(run_).strongest(), nullptr);
  EXPECT_EQ(VerdictLines(FiguresOf(run_)).at(0), "strongest attack on gradients: none measured");
  EXPECT_EQ(VerdictLines(FiguresOf(run_)).at(4), "practical, without side information: none measured");
  EXPECT_EQ(VerdictLines(FiguresOf(run_)).at(5), "with side information: none measured");
}

TEST_F(LedgerFiguresTest, ABoundThatNoAttackExceedsIsNotSaidToHold) {
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNotExceeded);
  EXPECT_THAT(
      VerdictLines(FiguresOf(run_)),
      ElementsAre(
          "strongest attack on gradients: Length outside the main direction (residual_norm) at the cut layer, AUC "
          "0.900",
          "bound: not exceeded by the attacks run here",
          "proved: nothing; conditional: AUC at most 0.750 over the whole run", "worst case measured: none measured",
          "practical, without side information: Length outside the main direction (residual_norm) at the cut layer, "
          "AUC "
          "0.900",
          "with side information: Line between the classes, accumulated (cumulative_direction) at the cut layer, "
          "AUC 0.700",
          "practical attack beside features alone: not measured: neither features_only nor activation_clusters was run",
          "guessing: p95 0.541"));
}

// Its noise is recorded before the first release; its epochs' rows and its claim are not there any more.
TEST_F(LedgerFiguresTest, ARunThatWasKilledIsBoundedByTheNoiseThatItPlanned) {
  party().record.run.protection = "label_dp(epsilon=1)";
  party().epoch_leaks.clear();
  for (ProtectionRow& row : party().protections) {
    row.method = "label_dp";
    row.sum_kl = row.auc_bound = kNan;
  }
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNoneStated);
  party().label_releases = {{"flip", 0, 1, 1}};
  const RunFigures flips = FiguresOf(run_);
  EXPECT_NEAR(*flips.run_auc_bound, std::exp(1) / (1 + std::exp(1)), 1e-12);
  EXPECT_EQ(flips.bound(), BoundState::kNotTested);
  EXPECT_EQ(VerdictWords(flips.verdict()), "proved, not checked");
  party().all_runs = AllRunsRow{"account", 100, 0.8};  // With other runs: the sum, and no bound of this run.
  EXPECT_EQ(FiguresOf(run_).run_auc_bound, flips.run_auc_bound);
  party().record.run.protection = "gaussian_label_dp(sigma=1, draws=2)";
  party().label_releases = {{"gaussian", 1024, 2, 1}};
  EXPECT_NEAR(*FiguresOf(run_).run_auc_bound, 0.8413447460685429, 1e-9);  // Phi(1): mu^2 = 2.
}

TEST_F(LedgerFiguresTest, ABoundThatRestsOnNoAssumptionIsCalledProved) {
  party().record.run.protection = "gaussian_label_dp(sigma=2)";
  EXPECT_EQ(BoundStateWords(FiguresOf(run_)), "not exceeded by the attacks run here");
  EXPECT_EQ(VerdictLines(FiguresOf(run_)).at(1), "bound: not exceeded by the attacks run here");
  EXPECT_EQ(VerdictWords(FiguresOf(run_).verdict()), "proved, not checked");
  party().claim_check.emplace();
  party().claim_check->claimed_mu = 0.5;
  party().claim_check->half_noise_mu_lower = 0.8;
  EXPECT_EQ(VerdictWords(FiguresOf(run_).verdict()), "guaranteed");
  EXPECT_EQ(BoundKindName(FiguresOf(run_)), "proved");
  party().epoch_leaks = {Row(0, "norm", 0.7, 0.65)};
  EXPECT_EQ(BoundStateWords(FiguresOf(run_)), "exceeded by Gradient length");
}

TEST_F(LedgerFiguresTest, TheWidestExcessOfEachAttackIsTold) {
  party().epoch_leaks = {Row(0, "norm", 0.7, 0.65), Row(1, "norm", 0.75, 0.65), Row(2, "norm", 0.6, 0.65),
                         Row(1, "direction", 0.9, 0.65)};
  const RunFigures ranking = FiguresOf(run_);
  EXPECT_EQ(ranking.bound(), BoundState::kExceeded);
  ASSERT_EQ(ranking.excesses.size(), 2);  // The strongest first, an attack once.
  EXPECT_EQ(ranking.excesses[0].attack, "direction");
  EXPECT_EQ(ranking.excesses[1].attack, "norm");
  EXPECT_DOUBLE_EQ(*ranking.excesses[1].auc_at_least, CertainAuc({"norm", 1, 0.75, 40'960, 10'240}));
  EXPECT_THAT(ranking.excesses[1].epochs, ElementsAre(1, 2));
  EXPECT_EQ(ranking.excesses[1].worst_epoch, 2);
  EXPECT_EQ(BoundStateWords(ranking), "exceeded by Line between the classes and 1 more");
}

TEST_F(LedgerFiguresTest, AnEventAloneExceedsTheBoundToo) {
  party().epoch_leaks.clear();
  party().events = {{"", "bound_exceeded", "epoch 3: norm at cut: AUC at least 0.71, allowed 0.68"},
                    {"", "bound_exceeded", "something else"}};
  const RunFigures ranking = FiguresOf(run_);
  ASSERT_EQ(ranking.excesses.size(), 2);
  EXPECT_EQ(BoundStateWords(ranking), "exceeded by Gradient length and 1 more");
  EXPECT_EQ(ranking.excesses[1].attack, "an attack");
}

TEST_F(LedgerFiguresTest, WhatPromisesNothingStatesNoBound) {
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = 1;
    row.sum_kl = std::numeric_limits<double>::infinity();
  }
  party().epoch_leaks = {Row(0, "norm", 0.99, 1)};
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNoneStated);
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = row.sum_kl = kNan;
  }
  party().epoch_leaks = {Row(0, "norm", 0.99, kNan)};
  party().claim_check.emplace().claimed_mu = 650;  // Of rounding on the wire, which is no noise.
  EXPECT_EQ(BoundStateWords(FiguresOf(run_)), "none stated");
  EXPECT_EQ(FiguresOf(run_).checked_claim(), nullptr);
}

TEST_F(LedgerFiguresTest, ABoundThatNothingWasHeldAgainstIsSaidToBeSo) {
  party().epoch_leaks.clear();
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNotTested);
  party().epoch_leaks = {Row(0, "norm", 0.6, 0.65)};
  party().epoch_leaks[0].observer = "nonlabel_party";  // Its scores may be made of anything.
  EXPECT_EQ(BoundStateWords(FiguresOf(run_)), "no attack was held against it");
}

TEST_F(LedgerFiguresTest, TheWorstCaseIsThatOfAllEpochsWhereItWasMeasured) {
  party().epoch_leaks.push_back(Row(0, "conditional_likelihood_ratio", 0.6, 0.7));
  EXPECT_EQ(FiguresOf(run_).worst_case->attack, "conditional_likelihood_ratio");
  EXPECT_EQ(FiguresOf(run_).verdict(), PrivacyVerdict::kHolds);
  party().epoch_leaks.push_back(Row(0, "cumulative_conditional_likelihood_ratio", 0.2, 0.85));
  party().epoch_leaks.push_back(Row(1, "cumulative_conditional_likelihood_ratio", 0.17, 0.85));
  EXPECT_EQ(FiguresOf(run_).worst_case->attack, "cumulative_conditional_likelihood_ratio");
  EXPECT_DOUBLE_EQ(FiguresOf(run_).worst_case->auc(), 0.83);  // Inverted, after the last epoch.
  party().epoch_leaks.push_back(Row(0, "norm", 0.9, 0.7));
  EXPECT_EQ(FiguresOf(run_).verdict(), PrivacyVerdict::kBroken);
}

TEST_F(LedgerFiguresTest, AttacksAreHeldAgainstFeaturesAloneBeforeActivations) {
  EXPECT_EQ(FiguresOf(run_).baseline(), nullptr);
  AddSeries("activation_clusters", {0.6, 0.6, 0.6, 0.6});
  EXPECT_EQ(Advantage(), "0.300 above Two groups of activations, AUC 0.600");
  party().epoch_leaks.push_back(Row(0, "features_only", 0.95, kNan));
  EXPECT_EQ(Advantage(), "0.050 below Features alone, AUC 0.950");
}

TEST_F(LedgerFiguresTest, ARunOfWhichNothingLeftHasNothingToBound) {
  for (ProtectionRow& row : party().protections) {
    row.gate = v1::FREEZE_BOTTOM;
  }
  party().epoch_leaks.clear();
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNothingReleased);
  EXPECT_EQ(VerdictWords(FiguresOf(run_).verdict()), "no gradient released");
  EXPECT_EQ(VerdictLines(FiguresOf(run_)).at(2), "proved: no gradient released");
}

TEST_F(LedgerFiguresTest, TheNonLabelPartysLedgerTellsOfNoBound) {
  party().record.run.role = "nonlabel_party";
  EXPECT_EQ(FiguresOf(run_).bound(), BoundState::kNotInLedger);
  EXPECT_EQ(BoundStateWords(FiguresOf(run_)), "not measurable from this ledger");
}

TEST_F(LedgerFiguresTest, GuessingIsThatOfTheMeanBatchWithTheShareOfTheEpochsBeforeTheSteps) {
  EXPECT_DOUBLE_EQ(FiguresOf(run_).guessing->p95, GuessingOver(256, 768).p95);
  for (EpochLeakRow& row : party().epoch_leaks) {  // The RESULT line counts the same, so that both say the same.
    row.positives = row.examples / 2;
  }
  EXPECT_DOUBLE_EQ(FiguresOf(run_).guessing->p95, GuessingOver(512, 512).p95);
  party().epoch_leaks.clear();
  party().steps.back().examples = 924;
  EXPECT_DOUBLE_EQ(FiguresOf(run_).guessing->mean, GuessingOver(999 * 0.25, 999 * 0.75).mean);
  for (ProtectionRow& row : party().protections) {
    row.p = kNan;
  }
  EXPECT_FALSE(FiguresOf(run_).guessing.has_value());
  party().steps.clear();
  EXPECT_FALSE(FiguresOf(run_).guessing.has_value());
}

TEST_F(LedgerFiguresTest, TheModelIsThatOfTheEpochThatIsKeptAndOfTheLast) {
  EXPECT_FALSE(FiguresOf(run_).evaluated);
  party().evaluations = {{0, "own_features", 0.7, 0.62, 0.8, 0.1}, {2, "test", 0.5, 0.7, 0.8, 0.1},
                         {2, "validation", 0.6, 0.65, 0.8, 0.1},   {4, "test", 0.6, 0.72, 0.8, 0.1},
                         {4, "validation", 0.6, 0.64, 0.8, 0.1},   {6, "test", 0.6, 0.6, 0.8, 0.1}};
  EXPECT_EQ(FiguresOf(run_).own_features, 0.62);
  EXPECT_EQ(FiguresOf(run_).test.auc, 0.6);
  EXPECT_EQ(FiguresOf(run_).kept_by, "last");
  for (EvaluationRow& row : party().evaluations) {
    row.kept = row.step == 2 ? "validation" : "";
  }
  EXPECT_EQ(FiguresOf(run_).test.auc, 0.7);
  EXPECT_EQ(FiguresOf(run_).test.log_loss, 0.5);
  EXPECT_EQ(FiguresOf(run_).final_test.auc, 0.6);
  EXPECT_EQ(FiguresOf(run_).kept_by, "validation");
}

}  // namespace
}  // namespace splitveil
