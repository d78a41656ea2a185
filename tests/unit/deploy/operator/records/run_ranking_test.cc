#include "deploy/operator/records/run_ranking.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "common/ledger/run_claim.h"
#include "common/operations/run_summary.h"

namespace splitveil {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

EpochLeakRow Row(int64_t epoch, const std::string& attack, double auc, double bound) {
  EpochLeakRow row;
  row.epoch = epoch;
  row.observer = "label_party";
  row.layer = "cut";
  row.attack = attack;
  row.examples = 4096;
  row.positives = 1024;
  row.auc = auc;
  row.auc_low = auc - 0.01;
  row.auc_high = auc + 0.01;
  row.gaussian_auc_bound = bound;
  return row;
}

class RunRankingTest : public testing::Test {
 protected:
  RunRankingTest() {
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
  PartyRecords& party() { return run_.parties.front(); }

  RunRecords run_;
};

TEST_F(RunRankingTest, TheStrongestIsInvertedAndCountsItsWorstBatches) {
  const RunRanking ranking = RankRun(run_);
  EXPECT_EQ(ranking.strongest().attack, "residual_norm");
  EXPECT_DOUBLE_EQ(ranking.strongest().auc, 0.9);
  EXPECT_NEAR(ranking.guessing.p95, 0.541, 0.001);
  EXPECT_NEAR(ranking.guessing.mean, 0.517, 0.001);
}

TEST_F(RunRankingTest, AnAttackOverTheEpochsCountsAsMuch) {
  party().epoch_leaks[1] = Row(0, "cumulative_direction", 0.05, 0.99);
  EXPECT_EQ(RankRun(run_).strongest().attack, "cumulative_direction");
  EXPECT_DOUBLE_EQ(RankRun(run_).strongest().auc, 0.95);
}

TEST_F(RunRankingTest, TruePositiveRatesAreThoseOfTheLastEpoch) {
  EXPECT_TRUE(std::isnan(RankRun(run_).strongest().tpr_1pct));  // It scored batches alone.
  party().epoch_leaks = {Row(0, "cumulative_direction", 0.93, 0.99), Row(1, "cumulative_direction", 0.95, 0.99)};
  party().epoch_leaks[0].tpr_1pct = 0.2;
  party().epoch_leaks[1].tpr_1pct = 0.3;
  party().epoch_leaks[1].tpr_01pct = 0.04;
  EXPECT_EQ(RankRun(run_).strongest().tpr_1pct, 0.3);
  EXPECT_EQ(RankRun(run_).strongest().tpr_01pct, 0.04);
}

TEST_F(RunRankingTest, SideInformationMakesAFigureOfItsOwn) {
  const RunRanking ranking = RankRun(run_);
  EXPECT_EQ(ranking.practical.attack, "residual_norm");
  EXPECT_EQ(ranking.with_side_information.attack, "cumulative_direction");  // Knows the means of both classes.
  EXPECT_DOUBLE_EQ(ranking.with_side_information.auc, 0.7);
  AddSeries("cosine", {0.95, 0.95, 0.95, 0.95});
  EXPECT_EQ(RankRun(run_).practical.attack, "residual_norm");
  EXPECT_EQ(RankRun(run_).with_side_information.attack, "cosine");
  EXPECT_EQ(RankRun(run_).strongest().attack, "cosine");
}

TEST_F(RunRankingTest, OfOneKindAloneThatIsTheStrongest) {
  party().leaks.clear();
  party().epoch_leaks = {Row(0, "direction", 0.6, 0.65)};
  EXPECT_FALSE(RankRun(run_).practical.is_measured());
  EXPECT_EQ(RankRun(run_).strongest().attack, "direction");
  party().epoch_leaks = {Row(0, "norm", 0.6, 0.65)};
  EXPECT_EQ(RankRun(run_).strongest().attack, "norm");
}

// No bound is about it, so it must not stand where a bound's state stands beside it.
TEST_F(RunRankingTest, WhatReadsNoGradientIsNeverTheStrongest) {
  AddSeries("activation_clusters", {0.97, 0.97, 0.97, 0.97});
  const RunRanking ranking = RankRun(run_);
  EXPECT_EQ(ranking.strongest().attack, "residual_norm");
  EXPECT_EQ(ranking.no_gradient.attack, "activation_clusters");
  EXPECT_DOUBLE_EQ(ranking.no_gradient.auc, 0.97);
  EXPECT_THAT(RankingLines(ranking).back(), HasSubstr("without any gradient: Two groups of activations"));
}

TEST_F(RunRankingTest, LabelsThatWereGivenMakeNoStrongestAttack) {
  party().epoch_leaks.push_back(Row(0, "model_completion", 0.99, kNan));
  EXPECT_EQ(RankRun(run_).strongest().attack, "residual_norm");
  party().leaks.clear();
  party().epoch_leaks = {Row(0, "model_completion", 0.99, kNan)};
  EXPECT_FALSE(RankRun(run_).strongest().is_measured());
  EXPECT_TRUE(std::isnan(RankRun(run_).strongest().auc));
  EXPECT_EQ(RankingLines(RankRun(run_)).at(0), "strongest attack on gradients: none measured");
  EXPECT_EQ(RankingLines(RankRun(run_)).at(5), "practical, without side information: none measured");
  EXPECT_EQ(RankingLines(RankRun(run_)).at(6), "with side information: none measured");
}

TEST_F(RunRankingTest, ABoundThatNoAttackExceedsIsNotSaidToHold) {
  EXPECT_EQ(RankRun(run_).bound, BoundState::kNotExceeded);
  EXPECT_THAT(
      RankingLines(RankRun(run_)),
      ElementsAre(
          "strongest attack on gradients: Length outside the main direction (residual_norm) at the cut layer, AUC "
          "0.900",
          "bound: not exceeded by the attacks run here", "verdict: claimed, the worst case was not measured",
          "proved: nothing; conditional: AUC at most 0.750 over the whole run", "worst case measured: none measured",
          "practical, without side information: Length outside the main direction (residual_norm) at the cut layer, "
          "AUC "
          "0.900",
          "with side information: Line between the classes, accumulated (cumulative_direction) at the cut layer, "
          "AUC 0.700",
          "practical attack beside features alone: not measured: neither features_only nor activation_clusters was run",
          "guessing: p95 0.541"));
}

TEST_F(RunRankingTest, ABoundThatRestsOnNoAssumptionIsCalledProved) {
  party().record.run.protection = "gaussian_label_dp(sigma=2)";
  EXPECT_EQ(BoundStateWords(RankRun(run_)), "proved; not exceeded by the attacks run here");
  EXPECT_EQ(RankingLines(RankRun(run_)).at(1), "bound: not exceeded by the attacks run here");
  EXPECT_EQ(RankingLines(RankRun(run_)).at(2), "verdict: proved, not checked");
  party().claim_check.emplace();
  party().claim_check->claimed_mu = 0.5;
  party().claim_check->half_noise_mu_lower = 0.8;
  EXPECT_EQ(RankingLines(RankRun(run_)).at(2), "verdict: guaranteed");
  EXPECT_EQ(BoundKindWords(RankRun(run_)), "proved");
  party().epoch_leaks = {Row(0, "norm", 0.7, 0.65)};
  EXPECT_EQ(BoundStateWords(RankRun(run_)), "exceeded by Gradient length");
}

TEST_F(RunRankingTest, TheWidestExcessOfEachAttackIsTold) {
  party().epoch_leaks = {Row(0, "norm", 0.7, 0.65), Row(1, "norm", 0.75, 0.65), Row(2, "norm", 0.6, 0.65),
                         Row(1, "direction", 0.9, 0.65)};
  const RunRanking ranking = RankRun(run_);
  EXPECT_EQ(ranking.bound, BoundState::kExceeded);
  ASSERT_EQ(ranking.excesses.size(), 2);  // The strongest first, an attack once.
  EXPECT_EQ(ranking.excesses[0].attack, "direction");
  EXPECT_EQ(ranking.excesses[1].attack, "norm");
  EXPECT_DOUBLE_EQ(ranking.excesses[1].auc_at_least, CertainAuc(0.75, 0.74, 0.76));
  EXPECT_THAT(ranking.excesses[1].epochs, ElementsAre(1, 2));
  EXPECT_EQ(ranking.excesses[1].worst_epoch, 2);
  EXPECT_EQ(BoundStateWords(ranking), "exceeded by Line between the classes and 1 more");
}

TEST_F(RunRankingTest, AnEventAloneExceedsTheBoundToo) {
  party().epoch_leaks.clear();
  party().events = {{"", "bound_exceeded", "epoch 3: norm at cut: AUC at least 0.71, allowed 0.68"},
                    {"", "bound_exceeded", "something else"}};
  const RunRanking ranking = RankRun(run_);
  ASSERT_EQ(ranking.excesses.size(), 2);
  EXPECT_EQ(BoundStateWords(ranking), "exceeded by Gradient length and 1 more");
  EXPECT_EQ(ranking.excesses[1].attack, "an attack");
}

TEST_F(RunRankingTest, WhatPromisesNothingStatesNoBound) {
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = 1;
    row.sum_kl = std::numeric_limits<double>::infinity();
  }
  party().epoch_leaks = {Row(0, "norm", 0.99, 1)};
  EXPECT_EQ(RankRun(run_).bound, BoundState::kNoneStated);
  for (ProtectionRow& row : party().protections) {
    row.auc_bound = row.sum_kl = kNan;
  }
  party().epoch_leaks = {Row(0, "norm", 0.99, kNan)};
  party().claim_check.emplace().claimed_mu = 650;  // Of rounding on the wire, which is no noise.
  EXPECT_EQ(BoundStateWords(RankRun(run_)), "none stated");
  EXPECT_FALSE(RankRun(run_).claim_check.has_value());
}

TEST_F(RunRankingTest, ABoundThatNothingWasHeldAgainstIsSaidToBeSo) {
  party().epoch_leaks.clear();
  EXPECT_EQ(RankRun(run_).bound, BoundState::kNotTested);
  party().epoch_leaks = {Row(0, "norm", 0.6, 0.65)};
  party().epoch_leaks[0].observer = "nonlabel_party";  // Its scores may be made of anything.
  EXPECT_EQ(BoundStateWords(RankRun(run_)), "no attack was held against it");
}

TEST_F(RunRankingTest, TheWorstCaseIsThatOfAllEpochsWhereItWasMeasured) {
  party().epoch_leaks.push_back(Row(0, "conditional_likelihood_ratio", 0.6, 0.7));
  EXPECT_EQ(RankRun(run_).worst_case.attack, "conditional_likelihood_ratio");
  EXPECT_EQ(RankRun(run_).standing, RunStanding::kHolds);
  party().epoch_leaks.push_back(Row(0, "cumulative_conditional_likelihood_ratio", 0.2, 0.85));
  party().epoch_leaks.push_back(Row(1, "cumulative_conditional_likelihood_ratio", 0.17, 0.85));
  EXPECT_EQ(RankRun(run_).worst_case.attack, "cumulative_conditional_likelihood_ratio");
  EXPECT_DOUBLE_EQ(RankRun(run_).worst_case.auc, 0.83);  // Inverted, after the last epoch.
  party().epoch_leaks.push_back(Row(0, "norm", 0.9, 0.7));
  EXPECT_EQ(RankRun(run_).standing, RunStanding::kBroken);
}

// The run's own table and whoever reads its ledger, wherever the bounds lie.
TEST_F(RunRankingTest, TheVerdictIsTheRunsOwn) {
  party().epoch_leaks = {Row(0, "cumulative_conditional_likelihood_ratio", 0.5, 0.9)};
  RunSummary summary;
  summary.steps = 4;
  summary.gate = {{"release", 4}};
  summary.worst_case = party().epoch_leaks.front();
  for (const char* protection : {"marvell(s=4)", "gaussian_label_dp(sigma=2)"}) {
    for (const double run_bound : {0.9, 0.9994, 0.9996, 1.0}) {
      for (const double step_sum_kl : {0.3, 22.0, 30.0, 100.0}) {  // Bounds of 0.65, 0.9995, 0.9999 and 1.
        party().record.run.protection = summary.protection = protection;
        party().epoch_leaks.front().gaussian_auc_bound = summary.run_auc_bound = run_bound;
        for (ProtectionRow& row : party().protections) {
          row.sum_kl = step_sum_kl;
          row.auc_bound = 1;
        }
        summary.step_auc_bound_p95 = StepAucBound(1, step_sum_kl);
        EXPECT_EQ(RankRun(run_).standing, StandingOf(ClaimOf(summary)))
            << protection << " " << run_bound << " " << step_sum_kl;
      }
    }
  }
}

TEST_F(RunRankingTest, AttacksAreHeldAgainstFeaturesAloneBeforeActivations) {
  EXPECT_FALSE(RankRun(run_).baseline.is_measured());
  AddSeries("activation_clusters", {0.6, 0.6, 0.6, 0.6});
  EXPECT_EQ(AdvantageWords(RankRun(run_).practical, RankRun(run_)), "0.300 above Two groups of activations, AUC 0.600");
  party().epoch_leaks.push_back(Row(0, "features_only", 0.95, kNan));
  EXPECT_EQ(AdvantageWords(RankRun(run_).practical, RankRun(run_)), "0.050 below Features alone, AUC 0.950");
}

TEST_F(RunRankingTest, ARunOfWhichNothingLeftHasNothingToBound) {
  for (ProtectionRow& row : party().protections) {
    row.gate = v1::FREEZE_BOTTOM;
  }
  party().epoch_leaks.clear();
  EXPECT_EQ(RankRun(run_).bound, BoundState::kNothingLeft);
  EXPECT_EQ(RankingLines(RankRun(run_)).at(2), "verdict: no gradient left");
  EXPECT_EQ(RankingLines(RankRun(run_)).at(3), "proved: no gradient left");
}

TEST_F(RunRankingTest, TheNonLabelPartysLedgerTellsOfNoBound) {
  party().record.run.role = "nonlabel_party";
  EXPECT_EQ(RankRun(run_).bound, BoundState::kNotInLedger);
  EXPECT_EQ(BoundStateWords(RankRun(run_)), "not measurable from this ledger");
}

}  // namespace
}  // namespace splitveil
