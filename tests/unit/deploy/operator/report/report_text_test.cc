#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/report/report_sections.h"

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

LeakSeries Series(double mean, double p95, int64_t steps = 100) {
  LeakSeries series;
  series.observer = "nonlabel_party";
  series.layer = "cut";
  series.attack = "norm";
  series.summary = {mean, 0.01, p95, steps};
  return series;
}

std::vector<ProtectionRow> Bounds(const std::vector<double>& bounds) {
  std::vector<ProtectionRow> rows;
  for (double bound : bounds) {
    rows.push_back({0, "marvell", 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, bound, v1::RELEASE});
  }
  return rows;
}

AttackLeak LeakOf(const LeakSeries& series, std::vector<const EpochLeakRow*> epochs = {}) {
  AttackLeak leak;
  leak.layer = series.layer;
  leak.attack = series.attack;
  leak.observer = series.observer;
  leak.series = &series;
  leak.batches = series.summary;
  if (!epochs.empty()) {
    leak.last_epoch = *epochs.back();
  }
  leak.epochs = std::move(epochs);
  return leak;
}

AttackLeak CumulativeLeak(std::vector<const EpochLeakRow*> epochs) {
  AttackLeak leak;
  leak.layer = "cut";
  leak.attack = "cumulative_direction";
  leak.epochs = std::move(epochs);
  return leak;
}

AttackFigure Attack(const std::string& attack, double p95) { return {"cut", attack, "", {0.5, 0, p95, 10}}; }

// Of the label party, with a bound on single steps, that is in this state.
RunFigures FiguresIn(BoundState bound) {
  RunFigures figures;
  figures.of_label_party = bound != BoundState::kNotInLedger;
  figures.protection = "marvell(s=4)";
  if (bound > BoundState::kNoneStated) {
    figures.step_auc_bound_p95 = 0.7;
  }
  figures.bound_tested = bound == BoundState::kNotExceeded;
  if (bound == BoundState::kExceeded) {
    figures.bound_exceeded = 1;
    figures.excesses = {{"cut", "norm", 0.8, 0.7, {1}, 1}};
  }
  return figures;
}

TEST(ReportTextTest, TellsWhatAnAttackReaches) {
  const LeakSeries series = Series(0.541, 0.6);
  EXPECT_EQ(
      DescribeReach(LeakOf(series)),
      "Gradient length at the cut layer reaches AUC 0.600 in one batch of twenty; 0.541 on average over the batches.");
  EpochLeakRow row;
  row.auc = 0.7;
  EXPECT_EQ(
      DescribeReach(LeakOf(series, {&row})),
      "Gradient length at the cut layer reaches AUC 0.700 over the last epoch; 0.600 in one batch of twenty, 0.541 on "
      "average over the batches.");
}

// Of a p95 that is larger, too: single batches scatter.
TEST(ReportTextTest, LeadsWithWhatAnAttackReachesOverAllExamples) {
  const LeakSeries series = Series(0.541, 0.9);
  EpochLeakRow row;
  row.auc = 0.56;
  row.auc_low = 0.55;
  row.auc_high = 0.57;
  EXPECT_EQ(
      DescribeReach(LeakOf(series, {&row})),
      "Gradient length at the cut layer reaches AUC 0.560 (95% interval 0.550 to 0.570) over the last epoch; 0.900 "
      "in one batch of twenty, 0.541 on average over the batches.");
}

TEST(ReportTextTest, NamesALayerByItsName) {
  LeakSeries series = Series(0.5, 0.5);
  series.layer = "first";
  EXPECT_THAT(DescribeReach(LeakOf(series)), HasSubstr("at layer \"first\""));
}

TEST(ReportTextTest, AnIntervalHasTheDigitsThatItsEndsNeed) {
  EXPECT_EQ(AucWithInterval(0.7789, 0.7747, 0.7831), "0.779 (95% interval 0.775 to 0.783)");
  EXPECT_EQ(AucWithInterval(0.77891, 0.77884, 0.77898), "0.779 (95% interval 0.7788 to 0.7790)");
  EXPECT_EQ(AucWithInterval(0.28, 0.27, 0.29),
            "0.720 (95% interval 0.710 to 0.730)");  // Inverted, the interval with it.
  EXPECT_EQ(AucWithInterval(0.7, 0.7, 0.7), "0.700");
  EXPECT_EQ(AucWithInterval(0.7, kNan, kNan), "0.700");
}

TEST(ReportTextTest, DrawsTheLineBetweenHiddenAndExposed) {
  EXPECT_EQ(ExposureOf(0.60), Exposure::kHidden);
  EXPECT_EQ(ExposureOf(0.601), Exposure::kPartly);
  EXPECT_EQ(ExposureOf(0.90), Exposure::kLargely);
  EXPECT_EQ(ExposureOf(0.901), Exposure::kExposed);
}

TEST(ReportTextTest, TellsTheBoundOfNineteenBatchesInTwenty) {
  std::vector<double> bounds(19, 0.712);
  bounds.push_back(1);
  EXPECT_EQ(DescribeBound(Bounds(bounds), FiguresIn(BoundState::kNotExceeded)),
            "Bound, conditional (Theorem 1, AUC 0.712 per step): not exceeded by the attacks run here. That does "
            "not show that the classes are Gaussian.");
}

TEST(ReportTextTest, ABoundThatIsExceededIsNoPromise) {
  const std::string words = DescribeBound(Bounds({0.7}), FiguresIn(BoundState::kExceeded));
  EXPECT_EQ(words,
            "Bound, conditional (Theorem 1, AUC 0.700 per step): exceeded by Gradient length. These gradients "
            "are not "
            "as it assumes: rely on what was measured.");
}

TEST(ReportTextTest, AProvedBoundIsToldWithItsFigure) {
  RunFigures figures = FiguresIn(BoundState::kNotExceeded);
  figures.protection = "gaussian_label_dp(sigma=2)";
  figures.run_auc_bound = 0.7;
  EXPECT_EQ(
      DescribeBound(Bounds({0.7}), figures),
      "Bound, proved for any adversary, model and data, beyond what it knew without the gradients: AUC 0.700 over "
      "the whole run; not exceeded by the attacks run here.");
  figures.protection = "marvell(s=4)";
  EXPECT_THAT(DescribeBound(Bounds({0.7}), figures),
              ::testing::StartsWith("Bound, conditional (Theorem 1, AUC 0.700 per step), AUC 0.700 over the whole "
                                    "run: not exceeded"));
}

TEST(ReportTextTest, SaysWhatThePracticalAttackReadsBesideFeatures) {
  RunFigures figures = FiguresIn(BoundState::kNotExceeded);
  EXPECT_THAT(DescribeBaseline(figures), HasSubstr("was not measured"));
  figures.attacks = {Attack("norm", 0.6), Attack("features_only", 0.72)};
  EXPECT_EQ(DescribeBaseline(figures), "The AUC of the practical attack is 0.120 below Features alone, AUC 0.720.");
}

TEST(ReportTextTest, TellsTheTestAucOfTheEpochThatIsKept) {
  std::vector<EvaluationRow> rows = {{10, "test", 0.5, 0.7421, 0.8, 0.01}, {20, "test", 0.49, 0.74, 0.8, 0.01}};
  EXPECT_EQ(KeptTest(rows), &rows[1]);
  EXPECT_EQ(DescribeModel(rows), "Test AUC of the model: 0.740.");
  rows[0].kept = "test";
  rows[1].kept = "";
  EXPECT_EQ(KeptTest(rows), &rows[0]);
  EXPECT_EQ(DescribeModel(rows),
            "Test AUC of the model: 0.742 (of 2 epochs the one chosen on the test part itself; last 0.740).");
  rows[0].kept = "validation";
  EXPECT_EQ(DescribeModel(rows),
            "Test AUC of the model: 0.742 (of 2 epochs the one kept by the validation part; last 0.740).");
}

TEST(ReportTextTest, TellsTheShareThatARegressionExplains) {
  const double nan = std::nan("");
  std::vector<EvaluationRow> rows = {{10, "test", nan, nan, nan, nan, 0.12, -0.5},
                                     {20, "test", nan, nan, nan, nan, 0.1, 0.7},
                                     {30, "test", nan, nan, nan, nan, 0.11, 0.65}};
  rows[1].kept = "test";
  rows[2].kept = "";
  EXPECT_EQ(DescribeModel(rows),
            "Test R² of the model: 0.700 (of 3 epochs the one chosen on the test part itself; last 0.650).");
  EXPECT_EQ(KeptTest(rows), &rows[1]);
  EXPECT_EQ(LastTest(rows), &rows[2]);
}

TEST(ReportTextTest, SaysWhatIsAttackedWhereItIsNotOneOfTwoClasses) {
  const double nan = std::nan("");
  const std::vector<EvaluationRow> of_two = {{10, "test", 0.5, 0.74, 0.8, 0.01}};
  EXPECT_EQ(DescribeTask(of_two), "");
  EXPECT_EQ(QualityName(of_two), "AUC");
  EXPECT_EQ(DescribeTask({}), "");
  const std::vector<EvaluationRow> of_classes = {{10, "test", 0.5, 0.74, 0.8, nan}};
  EXPECT_THAT(DescribeTask(of_classes), HasSubstr("one class"));
  EXPECT_THAT(DescribeModel(of_classes), HasSubstr("Test macro AUC of the model: 0.740."));
  const std::vector<EvaluationRow> of_numbers = {{10, "test", nan, nan, nan, nan, 0.12, 0.5}};
  EXPECT_THAT(DescribeTask(of_numbers), HasSubstr("above the median"));
  EXPECT_EQ(QualityName(of_numbers), "R²");
}

TEST(ReportTextTest, ReadsAnInvertedAttackAsAnAdversaryWould) {
  LeakSeries series = Series(0, 0);
  series.summary = SummarizeLeak({0.1, 0.1});
  EXPECT_THAT(DescribeReach(LeakOf(series)), HasSubstr("0.900 on average"));
}

TEST(ReportTextTest, ClaimsNothingOfAnAttackThatWasNotMeasured) {
  const LeakSeries series = Series(0, 0, 0);
  EXPECT_EQ(DescribeReach(LeakOf(series)), "");
}

TEST(ReportTextTest, PromisesNothingWhereNothingIsStatedOrTested) {
  EXPECT_THAT(DescribeBound(Bounds({1, 1, 0.7}), FiguresIn(BoundState::kNoneStated)), HasSubstr("none stated"));
  EXPECT_THAT(DescribeBound(Bounds({0.7}), FiguresIn(BoundState::kNotTested)),
              HasSubstr("no attack was held against it"));
  EXPECT_THAT(DescribeBound({}, FiguresIn(BoundState::kNotInLedger)), HasSubstr("was not given"));
  EXPECT_THAT(DescribeBound(Bounds({1}), FiguresIn(BoundState::kNotExceeded)),
              ::testing::StartsWith("Bound, conditional: not exceeded by the attacks run here."));
}

TEST(ReportTextTest, SaysWhatEachAdversaryMustKnow) {
  EXPECT_EQ(DescribeNeeds("norm"), "from what the partner receives");
  EXPECT_EQ(DescribeNeeds("cosine"), "with known positives");
  EXPECT_EQ(DescribeNeeds("likelihood_ratio"), "label side: knows the class statistics");
  EXPECT_EQ(DescribeNeeds("model_completion"), "with labels it was given");
  EXPECT_EQ(DescribeNeeds("homebrew"), "");
}

TEST(ReportTextTest, IsSilentAboutAModelNobodyTested) {
  EXPECT_EQ(DescribeModel({}), "");
  EXPECT_EQ(DescribeModel({{10, "train", 0.5, 0.9, 0.8, 0.01}, {10, "test", kNan, kNan, kNan, kNan}}), "");
}

EpochLeakRow Row(const std::string& attack, double auc, double half_width = 0.01) {
  EpochLeakRow row;
  row.epoch = 4;
  row.layer = "cut";
  row.attack = attack;
  row.auc = auc;
  row.auc_low = auc - half_width;
  row.auc_high = auc + half_width;
  row.gaussian_auc_bound = row.auc_bound = kNan;
  return row;
}

TEST(ReportTextTest, TellsWhatTheTrainingGaveAwayBeyondTheFeatures) {
  const std::vector<EpochLeakRow> rows = {Row("model_completion", 0.66), Row("features_only", 0.61)};
  EXPECT_EQ(
      DescribeAdvantage(rows, 100),
      "With 100 labels, an attack that uses the trained bottom model reaches AUC 0.660 on the other examples, and one "
      "that uses the features alone 0.610: the training adds 0.050.");
  EXPECT_THAT(DescribeAdvantage(rows, 0), HasSubstr("With a few labels"));
}

TEST(ReportTextTest, ClaimsNoAdvantageThatTheSampleCannotTell) {
  EXPECT_THAT(DescribeAdvantage({Row("model_completion", 0.66, 0.05), Row("features_only", 0.61, 0.05)}, 100),
              HasSubstr("the difference may be chance"));
  EXPECT_THAT(DescribeAdvantage({Row("model_completion", 0.55), Row("features_only", 0.61)}, 100),
              HasSubstr("the difference may be chance"));
}

TEST(ReportTextTest, IsSilentAboutAnAdvantageThatWasNotMeasured) {
  EXPECT_EQ(DescribeAdvantage({Row("model_completion", 0.66)}, 100), "");
  EXPECT_EQ(DescribeAdvantage({Row("model_completion", 0.66), Row("features_only", kNan)}, 100), "");
  EXPECT_EQ(DescribeAdvantage({}, 100), "");
}

TEST(ReportTextTest, TellsWhatACumulativeAttackReaches) {
  EpochLeakRow row = Row("cumulative_direction", 0.72);
  row.gaussian_auc_bound = 0.741;
  const AttackLeak leak = CumulativeLeak({&row});
  EXPECT_EQ(
      DescribeCumulative(leak, BoundState::kNotExceeded),
      "Line between the classes, accumulated at the cut layer reaches AUC 0.720 (95% interval 0.710 to 0.730) over "
      "all examples after epoch 5; the bound for all epochs together is 0.741.");
  EXPECT_THAT(DescribeCumulative(leak, BoundState::kExceeded), HasSubstr("but an attack exceeded a bound of this run"));
  EXPECT_EQ(DescribeCumulative(CumulativeLeak({}), BoundState::kExceeded), "");
}

TEST(ReportTextTest, PromisesNothingOfACumulativeAttackWithoutABound) {
  EpochLeakRow row = Row("cumulative_direction", 0.72);
  const AttackLeak leak = CumulativeLeak({&row});
  EXPECT_THAT(DescribeCumulative(leak, BoundState::kNotExceeded), Not(HasSubstr("bound")));
  row.gaussian_auc_bound = 1;
  EXPECT_THAT(DescribeCumulative(leak, BoundState::kNotExceeded), Not(HasSubstr("bound")));
}

TEST(ReportTextTest, TellsByHowMuchABoundWasExceededOncePerAttack) {
  EXPECT_EQ(
      DescribeExcess({"cut", "likelihood_ratio", 0.71, 0.68, {5}, 5}),
      "Best guess knowing both classes at the cut layer exceeds its bound in epoch 5: lower 99.99% limit of its AUC "
      "0.710, bound there 0.680.");
  EXPECT_EQ(
      DescribeExcess({"cut", "norm", 0.71, 0.68, {1, 3, 5}, 3}),
      "Gradient length at the cut layer exceeds its bound in epochs 1, 3 and 5, most in epoch 3: lower 99.99% limit of "
      "its AUC 0.710, bound there 0.680.");
  EXPECT_THAT(DescribeExcess({"cut", "norm"}), HasSubstr("the run's events have the figures"));
}

TEST(ReportTextTest, KeepsTheNameOfADecisionItDoesNotKnow) {
  EXPECT_EQ(DescribeGateDecision(v1::FREEZE_BOTTOM), "kept back: bottom model frozen");
  EXPECT_EQ(DescribeGateDecision(v1::GATE_ACTION_UNSPECIFIED), "unknown decision");
}

TEST(ReportTextTest, ClaimsNoMechanismItDoesNotKnow) {
  EXPECT_EQ(DescribeProtection("homebrew(7)"), "Protection: homebrew(7).");
  EXPECT_THAT(DescribeProtection(""), HasSubstr("do not say"));
  EXPECT_THAT(DescribeProtection("none"), HasSubstr("No protection"));
  EXPECT_THAT(DescribeProtection("label_dp(epsilon=1)"), HasSubstr("labels were flipped"));
  EXPECT_THAT(DescribeProtection("sparsify(keep=0.1)"), HasSubstr("no theory bounds"));
}

}  // namespace
}  // namespace splitveil
