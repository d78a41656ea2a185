#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "deploy/operator/preparation/number_scaling.h"

namespace splitveil {
namespace {

NumberSummary SummaryOf(const std::vector<double>& numbers) {
  ColumnSample sample(0);
  for (const double number : numbers) {
    sample.Add(number);
  }
  return sample.Summarize();
}

TEST(ColumnSampleTest, OfFewNumbersAllAreKept) {
  std::vector<double> numbers(101);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>(i * 37 % 101);  // 0 to 100.
  }
  const NumberSummary summary = SummaryOf(numbers);
  EXPECT_EQ(summary.least, 0);
  EXPECT_EQ(summary.lower_quantile, 1);
  EXPECT_EQ(summary.median, 50);
  EXPECT_EQ(summary.upper_quantile, 99);
  EXPECT_EQ(summary.greatest, 100);
  EXPECT_EQ(summary.robust_minimum, 1);
  EXPECT_EQ(summary.robust_maximum, 99);
}

TEST(ColumnSampleTest, OfManyNumbersTheQuantilesAreCloseAndTheEndsExact) {
  std::mt19937_64 random(3);
  std::exponential_distribution<double> draw;
  std::vector<double> numbers(300000);
  for (double& number : numbers) {
    number = draw(random);
  }
  numbers[123456] = 1e9;
  const NumberSummary summary = SummaryOf(numbers);
  EXPECT_EQ(summary.least, *std::min_element(numbers.begin(), numbers.end()));
  EXPECT_EQ(summary.greatest, 1e9);
  // The share of the law below a quantile: within five standard deviations of what a sample of this size gives.
  const auto share = [](double value) { return 1 - std::exp(-value); };
  const double deviation = std::sqrt(0.01 * 0.99 / ColumnSample::kSize);
  EXPECT_NEAR(share(summary.lower_quantile), 0.01, 5 * deviation);
  EXPECT_NEAR(share(summary.upper_quantile), 0.99, 5 * deviation);
  EXPECT_NEAR(share(summary.median), 0.5, 5 * std::sqrt(0.25 / ColumnSample::kSize));
}

TEST(ColumnSampleTest, TheSameNumbersGiveTheSameSample) {
  std::vector<double> numbers(100000);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::sin(static_cast<double>(i));
  }
  EXPECT_EQ(SummaryOf(numbers).median, SummaryOf(numbers).median);
}

TEST(ColumnSampleTest, AColumnThatIsNearlyConstantScalesByItsOtherNumbers) {
  std::vector<double> numbers(1000, 0);
  for (size_t i = 0; i < 500; i += 100) {
    numbers[i] = 1;
  }
  EXPECT_EQ(SummaryOf(numbers).robust_minimum, 0);
  EXPECT_EQ(SummaryOf(numbers).robust_maximum, 1);
  numbers[7] = 1e6;  // One of six.
  EXPECT_EQ(SummaryOf(numbers).robust_maximum, 1);
  numbers[8] = -1e6;
  EXPECT_EQ(SummaryOf(numbers).robust_minimum, 0);
  EXPECT_EQ(SummaryOf(numbers).robust_maximum, 1);
}

TEST(ColumnSampleTest, OfOneNumberTheRangeIsThatNumber) {
  for (const std::vector<double>& numbers : {std::vector<double>{5}, std::vector<double>(200, 5)}) {
    EXPECT_EQ(SummaryOf(numbers).robust_minimum, 5);
    EXPECT_EQ(SummaryOf(numbers).robust_maximum, 5);
  }
}

TEST(ColumnSampleTest, OfTwoNumbersTheRangeIsFromOneToTheOther) {
  EXPECT_EQ(SummaryOf({3, -1}).robust_minimum, -1);
  EXPECT_EQ(SummaryOf({3, -1}).robust_maximum, 3);
}

}  // namespace
}  // namespace splitveil
