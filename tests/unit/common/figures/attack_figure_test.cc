#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

AttackFigure Attack(const std::string& layer, const std::string& attack, double mean, double p95,
                    double pooled = kNan) {
  AttackFigure figure = {layer, attack, "", {mean, 0.01, p95, 10}};
  if (std::isfinite(pooled)) {
    figure.last_epoch.emplace().auc = pooled;
  }
  return figure;
}

std::vector<std::string> Sorted(std::vector<AttackFigure> attacks) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::shuffle(attacks.begin(), attacks.end(), random);
  std::sort(attacks.begin(), attacks.end(), IsStronger);
  std::vector<std::string> names;
  for (const AttackFigure& attack : attacks) {
    names.push_back(attack.layer + "/" + attack.attack);
  }
  return names;
}

TEST(AttackFigureTest, ItsFigureIsTheLargerOfTheWorstBatchesAndTheLastEpoch) {
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7).auc(), 0.7);
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7, 0.65).auc(), 0.7);
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7, 0.1).auc(), 0.9);  // Inverted.
  EXPECT_EQ((AttackFigure{"cut", "norm"}).auc(), 0);
}

TEST(AttackFigureTest, OfACumulativeAttackTheLastEpochCounts) {
  EXPECT_EQ(Attack("cut", "cumulative_direction", 0.7, 0.793, 0.782).auc(), 0.782);
  EXPECT_EQ(Attack("cut", "cumulative_direction", 0.7, 0.793).auc(), 0.793);  // Where nobody pooled it.
}

TEST(IsStrongerTest, PutsTheStrongestFirstWhateverItsLayer) {
  EXPECT_THAT(Sorted({Attack("first", "norm", 0.9, 0.95), Attack("cut", "norm", 0.6, 0.7),
                      Attack("cut", "spectral", 0.5, 0.6, 0.8)}),
              ElementsAre("first/norm", "cut/spectral", "cut/norm"));
}

TEST(IsStrongerTest, OfEqualFiguresTheHigherMeanThenWhatNeedsLessThenTheCut) {
  EXPECT_THAT(
      Sorted({Attack("cut", "norm", 0.6, 0.9), Attack("cut", "cosine", 0.8, 0.9), Attack("first", "spectral", 0.8, 0.9),
              Attack("cut", "residual_norm", 0.8, 0.9), Attack("cut", "likelihood_ratio", 0.8, 0.9)}),
      ElementsAre("cut/residual_norm", "first/spectral", "cut/cosine", "cut/likelihood_ratio", "cut/norm"));
}

TEST(IsStrongerTest, RoundingDoesNotDecide) {
  EXPECT_THAT(Sorted({Attack("cut", "norm", 0.8, 0.9 - 1e-12), Attack("cut", "residual_norm", 0.9, 0.9 - 2e-12)}),
              ElementsAre("cut/residual_norm", "cut/norm"));
}

TEST(IsStrongerTest, AttacksThatReadNoGradientComeAfterThoseThatDo) {
  EXPECT_THAT(Sorted({Attack("cut", "activation_clusters", 0.9, 0.95), Attack("cut", "model_completion", 0, 0, 0.99),
                      Attack("cut", "norm", 0.5, 0.51)}),
              ElementsAre("cut/norm", "cut/activation_clusters", "cut/model_completion"));
}

EpochLeakRow OverEpoch(double auc) {
  EpochLeakRow row;
  row.auc = auc;
  return row;
}

TEST(StrongestFirstTest, InTheOneOrderOfAttacksWithTheLastEpochs) {
  const std::vector<AttackFigure> figures = StrongestFirst({{{"first", "norm"}, {0.9, 0.9}},
                                                            {{"cut", "norm"}, {0.6, 0.6}},
                                                            {{"cut", "residual_norm"}, {0.2, 0.8}},
                                                            {{"cut", "activation_clusters"}, {0.95, 0.95}},
                                                            {{"cut", "cumulative_direction"}, {0.99, 0.99}}},
                                                           {{{"cut", "cumulative_direction"}, OverEpoch(0.3)}});
  std::vector<std::string> order;
  for (const AttackFigure& figure : figures) {
    order.push_back(figure.layer + " " + figure.attack);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"first norm", "cut residual_norm", "cut cumulative_direction", "cut norm",
                                             "cut activation_clusters"}));
  EXPECT_DOUBLE_EQ(figures[1].batches.mean, 0.8);  // Each batch inverted by itself.
  EXPECT_DOUBLE_EQ(figures[2].auc(), 0.7);
}

TEST(StrongestFirstTest, OfNothingNothing) { EXPECT_TRUE(StrongestFirst({}).empty()); }

TEST(StrongestFirstTest, AnAttackThatScoredNoBatchCountsAndAnUnmeasuredEpochDoesNot) {
  const std::vector<AttackFigure> figures =
      StrongestFirst({}, {{{"cut", "model_completion"}, OverEpoch(0.9)}, {{"cut", "norm"}, OverEpoch(kNan)}});
  ASSERT_EQ(figures.size(), 1);
  EXPECT_EQ(figures[0].attack, "model_completion");
  EXPECT_FALSE(figures[0].has_batches());
  EXPECT_EQ(figures[0].auc(), 0.9);
}

EpochLeakRow WorstRow(int64_t epoch, const std::string& attack, double auc) {
  EpochLeakRow row = OverEpoch(auc);
  row.epoch = epoch;
  row.observer = "label_party";
  row.layer = "cut";
  row.attack = attack;
  row.tpr_1pct = 0.25;
  row.tpr_01pct = kNan;
  return row;
}

TEST(WorstCaseTest, IsOfAllEpochsIfThatWasMeasured) {
  EXPECT_FALSE(WorstCaseOf({WorstRow(0, "norm", 0.9)}).has_value());
  std::vector<EpochLeakRow> rows = {WorstRow(0, "conditional_likelihood_ratio", 0.6)};
  EXPECT_EQ(WorstCaseOf(rows)->attack, "conditional_likelihood_ratio");
  rows.push_back(WorstRow(0, "cumulative_conditional_likelihood_ratio", 0.2));
  rows.push_back(WorstRow(1, "cumulative_conditional_likelihood_ratio", 0.17));
  EXPECT_DOUBLE_EQ(WorstCaseOf(rows)->auc(), 0.83);  // Inverted, after the last epoch.
  EXPECT_EQ(WorstCaseOf(rows)->tpr_1pct(), 0.25);
  EXPECT_FALSE(WorstCaseOf(rows)->tpr_01pct().has_value());
  rows[1].observer = rows[2].observer = "nonlabel_party";  // Its scores may be made of anything.
  EXPECT_EQ(WorstCaseOf(rows)->attack, "conditional_likelihood_ratio");
}

}  // namespace
}  // namespace splitveil
