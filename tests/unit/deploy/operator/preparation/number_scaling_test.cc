#include "deploy/operator/preparation/number_scaling.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/dataset/column_encoding.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

const double kMissing = std::numeric_limits<double>::quiet_NaN();

ColumnSample SampleOf(const std::vector<double>& numbers) {
  ColumnSample sample(0);
  for (const double number : numbers) {
    sample.Add(number);
  }
  return sample;
}

v1::NumericScaling Fitted(const std::vector<double>& numbers, Schema::Scaling kind) {
  v1::NumericScaling scaling;
  FitScaling(SampleOf(numbers), kind, scaling);
  return scaling;
}

Schema::Scaling Proposed(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return ProposedScaling(
      [&](double share) { return numbers[static_cast<size_t>(share * static_cast<double>(numbers.size() - 1))]; });
}

template <typename Number>
std::vector<double> Draws(Number number, int count = 20000) {
  std::mt19937_64 random(7);
  std::vector<double> numbers(static_cast<size_t>(count));
  std::generate(numbers.begin(), numbers.end(), [&] { return number(random); });
  return numbers;
}

double Normal(std::mt19937_64& random) { return std::normal_distribution<double>()(random); }

// numpy.quantile([3, 1, 4, 1, 5, 9, 2, 6], p): its default is the same definition.
TEST(ColumnSampleTest, PercentilesAreThoseOfNumpy) {
  const std::vector<double> percentiles = SampleOf({3, 1, 4, 1, 5, 9, 2, 6}).Percentiles();
  ASSERT_EQ(percentiles.size(), 101);
  for (const auto& [percent, quantile] : std::vector<std::pair<int, double>>{
           {0, 1}, {10, 1}, {25, 1.75}, {33, 2.31}, {50, 3.5}, {75, 5.25}, {99, 8.79}, {100, 9}}) {
    EXPECT_NEAR(percentiles[static_cast<size_t>(percent)], quantile, 1e-12) << percent;
  }
}

// Of the numbers 0^2, 1^2, ... 1000^2 the rank of x is sqrt(x) / 1000; between two knots the line is off by no more
// than an eighth of the second derivative allows.
TEST(NumberScalingTest, QuantileIsTheRankAmongTrainingNumbers) {
  std::vector<double> squares;
  for (int i = 0; i <= 1000; ++i) {
    squares.push_back(i * i);
  }
  const v1::NumericScaling scaling = Fitted(squares, Schema::QUANTILE);
  for (int percent = 0; percent <= 100; ++percent) {
    EXPECT_FLOAT_EQ(ScaledNumber(scaling, 100.0 * percent * percent), 0.01F * static_cast<float>(percent));
  }
  for (const double number : {333.0, 5000.0, 123456.0, 987654.0}) {
    EXPECT_NEAR(ScaledNumber(scaling, number), std::sqrt(number) / 1000, 0.0025);
  }
  // Half of the first line, from 0 to 100.
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, 50), 0.005F);
  EXPECT_EQ(ScaledNumber(scaling, -1), 0);
  EXPECT_EQ(ScaledNumber(scaling, 1e9), 1);
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, kMissing), 0.5F);
}

TEST(NumberScalingTest, EqualQuantilesShareTheMiddleOfTheirRanks) {
  std::vector<double> numbers(60, 0);  // Zeros have the ranks 0 to 0.6, and 1 to 40 those from there.
  for (int i = 1; i <= 41; ++i) {
    numbers.push_back(i);
  }
  const v1::NumericScaling scaling = Fitted(numbers, Schema::QUANTILE);
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, 0), 0.295F);  // Knots 0 to 59 of 100.
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, 1), 0.6F);
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, 21), 0.8F);
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, kMissing), 0.295F);  // The median's.
  EXPECT_EQ(ScaledNumber(scaling, -1), 0);
  EXPECT_FLOAT_EQ(ScaledNumber(Fitted({5, 5, 5}, Schema::QUANTILE), 5), 0.5F);
}

// Of the numbers exp(2.5 z), z from -2 to 2 in equal steps, it is z, scaled from the 1% to the 99% quantile: whatever
// the unit, and wherever zero is.
TEST(NumberScalingTest, LogOfLogNormalNumbersIsTheirLogarithm) {
  for (const double unit : {1.0, -1.0, 1e-6, 1e6}) {
    for (const double zero : {0.0, 1e3 * unit}) {
      std::vector<double> numbers;
      for (int i = -100; i <= 100; ++i) {
        numbers.push_back(zero + unit * std::exp(0.05 * i));
      }
      const v1::NumericScaling scaling = Fitted(numbers, Schema::LOG);
      for (int i = -98; i <= 98; ++i) {
        const double place = (i + 98.0) / 196;
        EXPECT_NEAR(ScaledNumber(scaling, zero + unit * std::exp(0.05 * i)), unit > 0 ? place : 1 - place, 1e-4)
            << unit << " " << zero << " " << i;
      }
      EXPECT_NEAR(ScaledNumber(scaling, kMissing), 0.5, 1e-6);
      EXPECT_EQ(ScaledNumber(scaling, zero - 1e9 * std::abs(unit)), 0);
      EXPECT_EQ(ScaledNumber(scaling, zero + 1e9 * std::abs(unit)), 1);
    }
  }
}

// Against the formula of table_schema.proto, term by term: of 0, 1, ... 10 and 100 ten times each, r = (1 - m) / m.
TEST(NumberScalingTest, LogFollowsItsFormula) {
  std::vector<double> numbers;
  for (int i = 0; i < 120; ++i) {
    numbers.push_back(i % 12 == 11 ? 100 : i % 12);
  }
  const double m = 5.0 / 100, r = (1 - m) / m;
  const v1::NumericScaling scaling = Fitted(numbers, Schema::LOG);
  for (const double number : {0.0, 1.0, 5.0, 10.0, 60.0, 100.0}) {
    EXPECT_NEAR(ScaledNumber(scaling, number), std::log(1 + number / 100 * (r * r - 1)) / std::log(r * r), 1e-6);
  }
  EXPECT_FLOAT_EQ(ScaledNumber(scaling, 5), 0.5F);
}

TEST(NumberScalingTest, LogOfMostlyZerosSpreadsTheOthers) {
  std::vector<double> numbers(600, 0);
  for (int i = 0; i < 400; ++i) {
    numbers.push_back(std::exp(0.01 * i));
  }
  const v1::NumericScaling scaling = Fitted(numbers, Schema::LOG);
  EXPECT_EQ(ScaledNumber(scaling, 0), 0);
  EXPECT_EQ(ScaledNumber(scaling, kMissing), 0);                   // The median is 0.
  EXPECT_NEAR(ScaledNumber(scaling, std::exp(1.95)), 0.5, 0.005);  // 390 of them lie below the 99% quantile.
  // Two values have nothing between them: as with ROBUST.
  const v1::NumericScaling flag = Fitted({0, 0, 0, 1, 1}, Schema::LOG);
  EXPECT_FALSE(flag.has_midpoint());
  EXPECT_FLOAT_EQ(ScaledNumber(flag, 0.25), 0.25F);
}

TEST(NumberScalingTest, EveryScalingStaysInZeroToOneAndRisesWhateverTheNumbers) {
  const double largest = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::denorm_min();
  for (const std::vector<double>& numbers : std::vector<std::vector<double>>{{},
                                                                             {7},
                                                                             {0, 0},
                                                                             {-largest, largest},
                                                                             {-largest, 0, largest},
                                                                             {0, least, largest},
                                                                             {-largest, -least, 0},
                                                                             {1, 1, 1, 2},
                                                                             {-3, -2, -1e300}}) {
    for (const Schema::Scaling kind : {Schema::MIN_MAX, Schema::ROBUST, Schema::QUANTILE, Schema::LOG}) {
      const v1::NumericScaling scaling = Fitted(numbers, kind);
      float before = 0;
      for (const double number : {-largest, -1e300, -2.0, -least, 0.0, least, 1.0, 1.5, 2.0, 7.0, 1e300, largest}) {
        const float scaled = ScaledNumber(scaling, number);
        EXPECT_TRUE(scaled >= before && scaled <= 1) << Schema::Scaling_Name(kind) << " " << number;
        before = scaled;
      }
    }
  }
}

TEST(ProposedScalingTest, FollowsTheSkew) {
  EXPECT_EQ(Proposed(Draws(Normal)), Schema::ROBUST);
  EXPECT_EQ(Proposed(Draws(std::uniform_real_distribution<double>())), Schema::ROBUST);
  for (const double sigma : {1.0, 1.5, 2.5, 4.0}) {
    EXPECT_EQ(Proposed(Draws([&](auto& random) { return std::exp(sigma * Normal(random)); })), Schema::LOG) << sigma;
    EXPECT_EQ(Proposed(Draws([&](auto& random) { return 50 - std::exp(sigma * Normal(random)); })), Schema::LOG);
  }
  EXPECT_EQ(Proposed(Draws([](auto& random) { return std::exp(0.4 * Normal(random)); })), Schema::ROBUST);
  EXPECT_EQ(Proposed(Draws(std::cauchy_distribution<double>())), Schema::QUANTILE);  // Far out on both sides.
  // Many zeros beside amounts.
  EXPECT_EQ(Proposed(Draws([](auto& random) { return random() % 2 == 0 ? 0 : std::exp(2 * Normal(random)); })),
            Schema::LOG);
}

TEST(ProposedScalingTest, LeavesFlagsAndFewCodesAlone) {
  EXPECT_EQ(Proposed(Draws([](auto& random) { return random() % 50 == 0 ? 1 : 0; })), Schema::ROBUST);
  EXPECT_EQ(Proposed(Draws([](auto& random) { return static_cast<double>(random() % 5); })), Schema::ROBUST);
  EXPECT_EQ(Proposed({3, 3, 3}), Schema::ROBUST);
  EXPECT_EQ(Proposed({1}), Schema::ROBUST);
}

}  // namespace
}  // namespace splitveil
