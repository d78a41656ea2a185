#include "deploy/operator/sweep/spread.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(SpreadTest, IsMeanLeastAndLargest) {
  const Spread spread = SpreadOf({3, 1, 5});
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 5);
}

TEST(SpreadTest, OfOneSeedIsThatSeed) {
  const Spread spread = SpreadOf({0.7});
  EXPECT_EQ(spread.mean, 0.7);
  EXPECT_EQ(spread.min, 0.7);
  EXPECT_EQ(spread.max, 0.7);
}

TEST(SpreadTest, OfEqualValuesIsExactlyTheValue) {
  const Spread spread = SpreadOf({0.1, 0.1, 0.1});  // Their sum, divided by three, rounds to another number.
  EXPECT_EQ(spread.mean, 0.1);
}

TEST(SpreadTest, LeavesOutWhatIsNotFinite) {
  const Spread spread = SpreadOf({kNone, 2, std::numeric_limits<double>::infinity(), 4});
  EXPECT_EQ(spread.mean, 3);
  EXPECT_EQ(spread.max, 4);
}

TEST(SpreadTest, OfNothingMeasuredIsNaN) {
  for (const std::vector<double>& values : {std::vector<double>{}, std::vector<double>{kNone}}) {
    const Spread spread = SpreadOf(values);
    EXPECT_TRUE(std::isnan(spread.mean) && std::isnan(spread.min) && std::isnan(spread.max));
  }
}

}  // namespace
}  // namespace splitveil
