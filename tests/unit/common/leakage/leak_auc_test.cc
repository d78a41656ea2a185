#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

using Scores = std::vector<float>;
using Labels = std::vector<uint8_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The definition, pair by pair.
double PairwiseAuc(const Scores& scores, const Labels& labels, int64_t excluded_row) {
  double wins = 0;
  double pairs = 0;
  for (int64_t i = 0; i < scores.size(); ++i) {
    for (int64_t j = 0; j < scores.size(); ++j) {
      if (labels[i] == 1 && labels[j] == 0 && i != excluded_row && j != excluded_row) {
        wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
        pairs += 1;
      }
    }
  }
  return wins / pairs;
}

TEST(LeakAucTest, IsOneWhereEveryPositiveScoresHigher) {
  EXPECT_EQ(*LeakAuc(Scores{1, 2, 3, 4}, Labels{0, 0, 1, 1}), 1.0);
}

TEST(LeakAucTest, IsZeroWhereEveryPositiveScoresLower) {
  EXPECT_EQ(*LeakAuc(Scores{1, 2, 3, 4}, Labels{1, 1, 0, 0}), 0.0);
}

TEST(LeakAucTest, IsOneHalfWhereAllScoresAreEqual) { EXPECT_EQ(*LeakAuc(Scores{2, 2, 2}, Labels{0, 1, 0}), 0.5); }

TEST(LeakAucTest, CountsZeroAndMinusZeroAsATie) { EXPECT_EQ(*LeakAuc(Scores{-0.0f, 0.0f}, Labels{0, 1}), 0.5); }

TEST(LeakAucTest, RanksInfinities) { EXPECT_EQ(*LeakAuc(Scores{-kInfinity, 0, kInfinity}, Labels{0, 0, 1}), 1.0); }

TEST(LeakAucTest, EqualsThePairwiseDefinitionOnRandomScoresWithManyTies) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t rows = 4 + random() % 40;
    Scores scores(rows);
    Labels labels(rows);
    for (int64_t i = 0; i < rows; ++i) {
      scores[i] = static_cast<float>(random() % 9) - 4;
      labels[i] = random() % 2;
    }
    labels[0] = 0;
    labels[1] = 1;
    const int64_t excluded = static_cast<int64_t>(random() % (rows - 2)) + 2;
    EXPECT_EQ(*LeakAuc(scores, labels), PairwiseAuc(scores, labels, -1));
    EXPECT_EQ(*LeakAuc(scores, labels, {static_cast<uint32_t>(excluded)}), PairwiseAuc(scores, labels, excluded));
  }
}

// The hint is the adversary's own knowledge: it scores highest under cosine and would lift the AUC.
TEST(LeakAucTest, LeavesTheExcludedRowOut) {
  const Scores scores{9, 1, 2, 3};
  const Labels labels{1, 0, 1, 0};
  EXPECT_EQ(*LeakAuc(scores, labels), 0.75);
  EXPECT_EQ(*LeakAuc(scores, labels, {0}), 0.5);
}

TEST(LeakAucTest, IgnoresAnExcludedScoreThatIsNotANumber) {
  EXPECT_EQ(*LeakAuc(Scores{kNan, 1, 2}, Labels{1, 0, 1}, {0}), 1.0);
}

TEST(LeakAucTest, FailsForFewerLabelsThanScores) {
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeakAucTest, FailsForAScoreThatIsNotANumber) {
  EXPECT_EQ(LeakAuc(Scores{1, kNan}, Labels{0, 1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeakAucTest, FailsForALabelThatIsNeitherZeroNorOne) {
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{0, 2}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeakAucTest, FailsForAnExcludedRowThatIsNotThere) {
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{0, 1}, {2}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeakAucTest, FailsWhereOneClassIsAbsent) {
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{0, 0}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{1, 1}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LeakAuc({}, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LeakAucTest, FailsWhereTheOnlyPositiveIsExcluded) {
  EXPECT_EQ(LeakAuc(Scores{1, 2}, Labels{0, 1}, {1}).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Against a comparison sort, which keeps ties in their order too.
void ExpectSorted(std::vector<RankedScore> scores) {
  std::vector<RankedScore> expected = scores;
  std::stable_sort(expected.begin(), expected.end(),
                   [](const RankedScore& a, const RankedScore& b) { return a.score < b.score; });
  SortByScore(scores);
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].score, expected[i].score) << i;
    EXPECT_EQ(scores[i].label, expected[i].label) << i;
  }
}

TEST(SortByScoreTest, SortsNumbersOfAllSizesAndSigns) {
  std::mt19937 random(5);
  std::vector<RankedScore> scores;
  for (int i = 0; i < 5000; ++i) {
    const double magnitude = std::pow(10, std::uniform_real_distribution<double>(-44, 38)(random));
    scores.push_back({static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude), static_cast<uint8_t>(i % 2)});
  }
  ExpectSorted(scores);
}

TEST(SortByScoreTest, KeepsTiesInTheirOrder) {
  std::mt19937 random(6);
  std::vector<RankedScore> scores;
  for (int i = 0; i < 1000; ++i) {
    scores.push_back({static_cast<float>(random() % 5) - 2, static_cast<uint8_t>(random() % 2)});
  }
  ExpectSorted(scores);
}

TEST(SortByScoreTest, BothZerosAreOne) { ExpectSorted({{0.0f, 1}, {-0.0f, 0}, {0.0f, 0}, {-1e-45f, 1}, {-0.0f, 1}}); }

TEST(SortByScoreTest, SortsTheEndsOfTheRange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  ExpectSorted({{kInfinity, 0}, {-kMost, 1}, {kMost, 1}, {-kInfinity, 0}, {0, 1}, {1e-45f, 0}});
}

TEST(SortByScoreTest, NothingAndOneStayAsTheyAre) {
  ExpectSorted({});
  ExpectSorted({{3, 1}});
}

}  // namespace
}  // namespace splitveil
