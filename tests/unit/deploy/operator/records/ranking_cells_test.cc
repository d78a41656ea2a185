#include "deploy/operator/records/ranking_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

using testing::ElementsAre;

TEST(RankingCellsTest, AreAsManyAsTheColumnsAndEmptyWhereNothingWasMeasured) {
  const RunRanking nothing;
  EXPECT_EQ(RankingCells(nothing).size(), RankingColumns().size());
  EXPECT_THAT(RankingCells(nothing),
              ElementsAre("", "", "", "", "", "", "", "", "", "", "", "not measurable from this ledger"));
}

TEST(RankingCellsTest, NameEachKindsAttackAndRankByTheStrongestOnGradients) {
  RunRanking ranking;
  ranking.unaided = {"cut", "norm", "label_party", 0.6};
  ranking.aided = {"first", "cosine", "nonlabel_party", 0.75};
  ranking.no_gradient = {"cut", "activation_clusters", "nonlabel_party", 0.9};
  ranking.guessing = {0.517, 0.541};
  ranking.bound = BoundState::kNotExceeded;
  EXPECT_THAT(RankingCells(ranking),
              ElementsAre("first", "cosine", "0.75", "norm@cut", "0.6", "cosine@first", "0.75",
                          "activation_clusters@cut", "0.9", "0.541", "0.517", "not exceeded by the attacks run here"));
}

}  // namespace
}  // namespace splitveil
