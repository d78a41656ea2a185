#include "common/leakage/ranked_scores.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace splitveil {
namespace {

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
