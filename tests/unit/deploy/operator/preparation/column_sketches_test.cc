#include "deploy/operator/preparation/column_sketches.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

TEST(ColumnSketchesTest, CountsDistinctTextsExactlyUpToItsSize) {
  DistinctSketch sketch;
  for (int pass = 0; pass < 2; ++pass) {
    for (int text = 0; text < 8'000; ++text) {
      sketch.Add(HashText(absl::StrCat("text ", text)));
    }
  }
  EXPECT_TRUE(sketch.exact());
  EXPECT_EQ(sketch.estimate(), 8'000);
  EXPECT_EQ(sketch.repeats(), 8'000);
}

TEST(ColumnSketchesTest, HashesTextsOfEveryLengthApart) {
  std::set<uint64_t> hashes;
  size_t texts = 0;
  for (size_t length = 0; length < 40; ++length) {
    for (size_t place = 0; place <= length; ++place) {
      for (const char byte : {'\0', 'b', '\xff'}) {
        std::string text(length, 'a');
        if (place < length) {
          text[place] = byte;
        } else if (byte != 'b') {
          continue;  // The text of 'a' alone once.
        }
        hashes.insert(HashText(text));
        ++texts;
      }
    }
  }
  EXPECT_EQ(hashes.size(), texts);
}

// Of 2,000,000 texts within five standard errors of 1.2 / sqrt(16384).
TEST(ColumnSketchesTest, EstimatesManyDistinctTexts) {
  DistinctSketch sketch;
  for (int text = 0; text < 2'000'000; ++text) {
    sketch.Add(HashText(absl::StrCat(text)));
  }
  EXPECT_FALSE(sketch.exact());
  EXPECT_NEAR(static_cast<double>(sketch.estimate()), 2e6, 2e6 * 5 * 1.2 / 128);
  EXPECT_EQ(sketch.repeats(), 0);
  for (int text = 0; text < 2'000; ++text) {  // One in a thousand repeats: found, though the sketch is full.
    sketch.Add(HashText(absl::StrCat(text)));
  }
  EXPECT_GT(sketch.repeats(), 0);
}

// Ranks within what the inequality allows with probability 99.9%, of a sorted column, the worst order for a sample that
// is none.
TEST(ColumnSketchesTest, QuantilesAreNearTheTrueRanks) {
  NumberSample sample;
  const int rows = 1'000'000;
  for (int row = 0; row < rows; ++row) {
    sample.Add(row);
  }
  for (const double share : {0.01, 0.25, 0.5, 0.75, 0.99}) {
    EXPECT_NEAR(sample.Quantile(share) / rows, share, 0.016) << share;
  }
}

TEST(ColumnSketchesTest, QuantilesOfFewNumbersAreExact) {
  NumberSample sample;
  EXPECT_TRUE(std::isnan(sample.Quantile(0.5)));
  for (const double number : {5, 1, 4, 2, 3}) {
    sample.Add(number);
  }
  EXPECT_EQ(sample.Quantile(0), 1);
  EXPECT_EQ(sample.Quantile(0.5), 3);
  EXPECT_EQ(sample.Quantile(1), 5);
  EXPECT_THAT(sample.Histogram(2, 1, 5), ::testing::ElementsAre(2, 3));
  EXPECT_THAT(sample.Histogram(2, 3, 3), ::testing::ElementsAre(5, 0));
}

TEST(ColumnSketchesTest, ExtremesAreCountedExactlyInAnyOrder) {
  std::vector<double> numbers;
  for (int number = 0; number < 100; ++number) {
    numbers.insert(numbers.end(), static_cast<size_t>(number % 7 + 1), number);
  }
  std::mt19937 draws(3);
  std::shuffle(numbers.begin(), numbers.end(), draws);
  Extremes extremes;
  for (const double number : numbers) {
    extremes.Add(number);
  }
  ASSERT_EQ(extremes.least().size(), Extremes::kKept);
  for (int i = 0; i < static_cast<int>(Extremes::kKept); ++i) {
    EXPECT_EQ(extremes.least()[i].number, i);
    EXPECT_EQ(extremes.least()[i].rows, i % 7 + 1);
    EXPECT_EQ(extremes.negated_greatest()[i].number, i - 99);
    EXPECT_EQ(extremes.negated_greatest()[i].rows, (99 - i) % 7 + 1);
  }
}

}  // namespace
}  // namespace splitveil
