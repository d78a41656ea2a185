#include "deploy/operator/report/plain_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

using testing::HasSubstr;
using testing::Not;

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

TEST(PlainWordsTest, CountsPairs) {
  EXPECT_EQ(
      DescribeLeak(Series(0.541, 0.6)),
      "\"Gradient length\" at the cut layer tells a positive from a negative example in 54 of 100 pairs; in one batch "
      "of twenty, in 60 or more.");
}

TEST(PlainWordsTest, NamesALayerByItsName) {
  LeakSeries series = Series(0.5, 0.5);
  series.layer = "first";
  EXPECT_THAT(DescribeLeak(series), HasSubstr("at layer \"first\""));
}

TEST(PlainWordsTest, DrawsTheLineBetweenHiddenAndExposed) {
  EXPECT_EQ(ExposureOf(0.60), Exposure::kHidden);
  EXPECT_EQ(ExposureOf(0.601), Exposure::kPartly);
  EXPECT_EQ(ExposureOf(0.90), Exposure::kLargely);
  EXPECT_EQ(ExposureOf(0.901), Exposure::kExposed);
}

TEST(PlainWordsTest, TellsTheBoundOfNineteenBatchesInTwenty) {
  std::vector<double> bounds(19, 0.712);
  bounds.push_back(1);
  EXPECT_THAT(DescribeBound(Bounds(bounds)), HasSubstr("at most 72 of 100 pairs"));
}

TEST(PlainWordsTest, TellsTheBestTestAuc) {
  const std::vector<EvaluationRow> rows = {{10, "test", 0.5, 0.7421, 0.8, 0.01}, {20, "test", 0.49, 0.74, 0.8, 0.01}};
  EXPECT_THAT(DescribeModel(rows), HasSubstr("74 of 100 pairs (test AUC 0.742, best of 2 evaluations)"));
}

TEST(PlainWordsTest, ReadsAnInvertedAttackAsAnAdversaryWould) {
  EXPECT_THAT(DescribeLeak(Series(0.1, 0.95)), HasSubstr("in 90 of 100 pairs (its score read in reverse)"));
  EXPECT_THAT(DescribeLeak(Series(0.499, 0.55)), Not(HasSubstr("reverse")));
}

TEST(PlainWordsTest, DoesNotCallAnUnmeasuredAttackHarmless) {
  EXPECT_THAT(DescribeLeak(Series(0, 0, 0)), HasSubstr("was not measured"));
}

TEST(PlainWordsTest, PromisesNothingWhereTheBoundIsOne) {
  EXPECT_THAT(DescribeBound(Bounds({1, 1, 0.7})), HasSubstr("no guarantee"));
}

TEST(PlainWordsTest, IsSilentAboutABoundNobodyComputed) {
  EXPECT_EQ(DescribeBound({}), "");
  EXPECT_EQ(DescribeBound(Bounds({kNan})), "");
}

TEST(PlainWordsTest, IsSilentAboutAModelNobodyTested) {
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

TEST(PlainWordsTest, TellsWhatTheTrainingGaveAwayBeyondTheFeatures) {
  const std::vector<EpochLeakRow> rows = {Row("model_completion", 0.66), Row("features_only", 0.61)};
  EXPECT_EQ(DescribeAdvantage(rows, 100),
            "Given 100 labels, the bottom model trained here reads 66 of 100 pairs of the other examples, a model from "
            "the features alone 61: the training gave away 5.");
  EXPECT_THAT(DescribeAdvantage(rows, 0), HasSubstr("Given a few labels"));
}

TEST(PlainWordsTest, ClaimsNoAdvantageThatTheSampleCannotTell) {
  EXPECT_THAT(DescribeAdvantage({Row("model_completion", 0.66, 0.05), Row("features_only", 0.61, 0.05)}, 100),
              HasSubstr("no more than this sample can tell"));
  EXPECT_THAT(DescribeAdvantage({Row("model_completion", 0.55), Row("features_only", 0.61)}, 100),
              HasSubstr("no more than this sample can tell"));
}

TEST(PlainWordsTest, IsSilentAboutAnAdvantageThatWasNotMeasured) {
  EXPECT_EQ(DescribeAdvantage({Row("model_completion", 0.66)}, 100), "");
  EXPECT_EQ(DescribeAdvantage({Row("model_completion", 0.66), Row("features_only", kNan)}, 100), "");
  EXPECT_EQ(DescribeAdvantage({}, 100), "");
}

TEST(PlainWordsTest, TellsWhatAnAdversaryReadsThatRemembers) {
  EpochLeakRow row = Row("cumulative_direction", 0.72);
  row.gaussian_auc_bound = 0.741;
  EXPECT_EQ(DescribeCumulative(row),
            "An adversary that remembers every epoch reads 72 of 100 pairs after epoch 5 (95% interval 71 to 73); the "
            "noise of all epochs together allows it 75.");
}

TEST(PlainWordsTest, TurnsTheIntervalWithTheScore) {
  EXPECT_THAT(DescribeCumulative(Row("cumulative_direction", 0.28)), HasSubstr("72 of 100 pairs after epoch 5 (95% "
                                                                               "interval 71 to 73)"));
}

TEST(PlainWordsTest, PromisesNothingToOrOfAnAdversaryThatRemembers) {
  EpochLeakRow row = Row("cumulative_direction", 0.72);
  EXPECT_THAT(DescribeCumulative(row), Not(HasSubstr("allows")));
  row.gaussian_auc_bound = 1;
  EXPECT_THAT(DescribeCumulative(row), Not(HasSubstr("allows")));
}

TEST(PlainWordsTest, TellsByHowMuchABoundWasExceeded) {
  EpochLeakRow row = Row("likelihood_ratio", 0.72);
  row.gaussian_auc_bound = 0.68;
  EXPECT_EQ(DescribeBeyondBound(row),
            "\"Best guess knowing both classes\" at the cut layer after epoch 5: at least 71.0 of 100 pairs, where the "
            "noise allows 68.0.");
}

TEST(PlainWordsTest, KeepsTheNameOfADecisionItDoesNotKnow) {
  EXPECT_EQ(DescribeGateDecision(v1::FREEZE_BOTTOM), "kept back: bottom model frozen");
  EXPECT_EQ(DescribeGateDecision(v1::GATE_ACTION_UNSPECIFIED), "unknown decision");
}

TEST(PlainWordsTest, ClaimsNoMechanismItDoesNotKnow) {
  EXPECT_EQ(DescribeProtection("homebrew(7)"), "Protection: homebrew(7).");
  EXPECT_THAT(DescribeProtection(""), HasSubstr("do not say"));
  EXPECT_THAT(DescribeProtection("none"), HasSubstr("No protection"));
  EXPECT_THAT(DescribeProtection("label_dp(epsilon=1)"), HasSubstr("labels were flipped"));
  EXPECT_THAT(DescribeProtection("sparsify(keep=0.1)"), HasSubstr("no theory bounds"));
}

}  // namespace
}  // namespace splitveil
