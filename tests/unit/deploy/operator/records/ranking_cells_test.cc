#include "deploy/operator/records/ranking_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using testing::ElementsAre;

TEST(RankingCellsTest, AreAsManyAsTheColumnsAndEmptyWhereNothingWasMeasured) {
  const RunRanking nothing;
  EXPECT_EQ(RankingCells(nothing).size(), RankingColumns().size());
  EXPECT_THAT(RankingCells(nothing), ElementsAre("", "", "", "", "", "", "", "", "", "", "", "",
                                                 "not measurable from this ledger", "", "", "", "not known"));
}

TEST(RankingCellsTest, NameEachKindsAttackAndRankByTheStrongestOnGradients) {
  RunRanking ranking;
  ranking.practical = {"cut", "norm", "label_party", 0.6};
  ranking.with_side_information = {"first", "cosine", "nonlabel_party", 0.75, 0.04, 0.005};
  ranking.no_gradient = {"cut", "activation_clusters", "nonlabel_party", 0.9};
  ranking.guessing = {0.517, 0.541};
  ranking.bound = BoundState::kNotExceeded;
  EXPECT_THAT(RankingCells(ranking),
              ElementsAre("cosine@first", "0.75", "0.04", "0.005", "norm@cut", "0.6", "cosine@first", "0.75",
                          "activation_clusters@cut", "0.9", "0.541", "0.517", "not exceeded by the attacks run here",
                          "", "", "", "not known"));
}

TEST(RankingCellsTest, NameTheAttackThatExceedsABoundAsEveryOtherCellDoes) {
  RunRanking ranking;
  ranking.bound = BoundState::kExceeded;
  ranking.excesses = {{"cut", "norm", 0.7, 0.6, {1}, 1}};
  EXPECT_EQ(BoundCell(ranking), "exceeded by norm@cut");
  ranking.excesses.push_back({"first", "spectral", 0.65, 0.6, {1}, 1});
  EXPECT_EQ(BoundCell(ranking), "exceeded by norm@cut and 1 more");
}

TEST(RankingCellsTest, PutTheThreeFiguresAndTheVerdictSideBySide) {
  RunRanking ranking;
  ranking.practical = {"cut", "norm", "label_party", 0.6};
  ranking.worst_case = {"cut", "cumulative_conditional_likelihood_ratio", "label_party", 0.69};
  ranking.bound = BoundState::kNotExceeded;
  ranking.run_auc_bound = 0.7;
  ranking.standing = RunStanding::kHolds;
  std::vector<std::string> cells = RankingCells(ranking);
  EXPECT_THAT(std::vector<std::string>(cells.end() - 4, cells.end()),
              ElementsAre("", "cumulative_conditional_likelihood_ratio@cut", "0.69", "holds as far as measured"));
  ranking.proved = true;
  ranking.standing = RunStanding::kGuaranteed;
  cells = RankingCells(ranking);
  EXPECT_EQ(*(cells.end() - 4), "0.7");
  EXPECT_EQ(cells.back(), "guaranteed");
}

}  // namespace
}  // namespace splitveil
