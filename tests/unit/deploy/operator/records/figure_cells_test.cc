#include "deploy/operator/records/figure_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;

AttackFigure Attack(const std::string& layer, const std::string& attack, double p95) {
  return {layer, attack, "label_party", {0.5, 0, p95, 10}};
}

// Of the label party, with a bound that was held against.
RunFigures Stated() {
  RunFigures figures;
  figures.of_label_party = figures.bound_tested = true;
  figures.protection = "marvell(s=4)";
  figures.run_auc_bound = 0.7;
  return figures;
}

TEST(RankingCellsTest, AreAsManyAsTheColumnsAndEmptyIfNothingWasMeasured) {
  const RunFigures nothing;
  EXPECT_EQ(RankingCells(nothing).size(), RankingColumns().size());
  EXPECT_THAT(RankingCells(nothing), ElementsAre("", "", "", "", "", "", "", "", "", "", "", "",
                                                 "not measurable from this ledger", "", "", "", "", "not known"));
}

TEST(RankingCellsTest, NameEachKindsAttackAndRankByTheStrongestOnGradients) {
  RunFigures figures = Stated();
  figures.attacks = {Attack("first", "cosine", 0.75), Attack("cut", "norm", 0.6),
                     Attack("cut", "activation_clusters", 0.9)};
  EpochLeakRow& epoch = figures.attacks.front().last_epoch.emplace();
  epoch.auc = 0.7;
  epoch.tpr_1pct = 0.04;
  epoch.tpr_01pct = 0.005;
  figures.guessing = Guessing{0.517, 0.541};
  EXPECT_THAT(RankingCells(figures),
              ElementsAre("cosine@first", "0.75", "0.04", "0.005", "norm@cut", "0.6", "cosine@first", "0.75",
                          "activation_clusters@cut", "0.9", "0.541", "0.517", "not exceeded by the attacks run here",
                          "", "", "", "", "claimed, the worst case was not measured"));
}

TEST(RankingCellsTest, NameTheAttackThatExceedsABound) {
  RunFigures figures = Stated();
  figures.bound_exceeded = 1;
  figures.excesses = {{"cut", "norm", 0.7, 0.6, {1}, 1}};
  EXPECT_EQ(RankingCells(figures).at(12), "exceeded by norm at cut");
  figures.excesses.push_back({"first", "spectral", 0.65, 0.6, {1}, 1});
  EXPECT_EQ(RankingCells(figures).at(12), "exceeded by norm at cut and 1 more");
}

TEST(RankingCellsTest, PutTheThreeFiguresAndTheVerdictSideBySide) {
  RunFigures figures = Stated();
  figures.worst_case = Attack("cut", "cumulative_conditional_likelihood_ratio", 0.69);
  figures.worst_case->last_epoch.emplace().auc = 0.69;
  figures.worst_case->last_epoch->tpr_1pct = 0.04;
  std::vector<std::string> cells = RankingCells(figures);
  EXPECT_THAT(std::vector<std::string>(cells.end() - 5, cells.end()),
              ElementsAre("", "cumulative_conditional_likelihood_ratio@cut", "0.69", "0.04", "not refuted"));
  figures.protection = "gaussian_label_dp(sigma=2)";
  cells = RankingCells(figures);
  EXPECT_EQ(*(cells.end() - 5), "0.7");
  EXPECT_EQ(cells.back(), "proved, not checked");
}

}  // namespace
}  // namespace splitveil
