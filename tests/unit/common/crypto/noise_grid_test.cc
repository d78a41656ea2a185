#include "common/crypto/noise_grid.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <vector>

#include "common/crypto/secure_gaussian.h"

namespace splitveil {
namespace {

TEST(NoiseGridTest, SpacingIsThePowerOfTwoBelow) {
  EXPECT_EQ(NoiseGrid(1).spacing(), 1);
  EXPECT_EQ(NoiseGrid(0.7).spacing(), 0.5);
  EXPECT_EQ(NoiseGrid(1e-30).spacing(), std::exp2(-100));
  for (const double none : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_EQ(NoiseGrid(none).spacing(), 0) << none;
  }
}

TEST(NoiseGridTest, RoundsToTheNearestMultiple) {
  const NoiseGrid grid(0.25);
  EXPECT_EQ(grid.Nearest(0.13), 0.25);
  EXPECT_EQ(grid.Nearest(-0.13), -0.25);
  EXPECT_EQ(grid.Nearest(0.12), 0);
  EXPECT_EQ(grid.Nearest(1e6 + 0.3), 1e6 + 0.25);
  EXPECT_EQ(grid.Nearest(0x1p60 + 4096), 0x1p60 + 4096);  // Every double there is a multiple.
  EXPECT_EQ(grid.Nearest(std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(grid.Nearest(std::nan(""))));
}

TEST(NoiseGridTest, NoGridChangesNothing) {
  for (const double value : {0.0, 0.1, -1e-300, 1e300}) {
    EXPECT_EQ(NoiseGrid().Nearest(value), value);
    EXPECT_EQ(NoiseGrid(0).Nearest(value), value);
  }
}

double Phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// The probability of each multiple is that of real Gaussian noise in its cell, wherever the value lies between two:
// Pearson's statistic of 500,000 draws over the cells with at least 50 expected, against the normal approximation of
// its law; 5 standard deviations are passed once in 3 million.
TEST(NoiseGridTest, EveryMultipleHasTheProbabilityOfItsCell) {
  constexpr size_t kDraws = 500'000;
  const auto gaussian = *SecureGaussian::Create(SecretKey::Generate());
  std::vector<float> draws(kDraws);
  uint32_t batch = 0;
  for (const double value : {0.0, 0.3, 0.4999, -7.123456}) {
    gaussian->Fill({0, ++batch, 0}, 0, absl::MakeSpan(draws));
    const NoiseGrid grid(NoiseGrid::kSpacing);
    std::map<int64_t, int64_t> counts;
    for (const float draw : draws) {
      const double multiple = grid.Nearest(value + draw) / grid.spacing();
      ASSERT_EQ(multiple, std::round(multiple));
      ++counts[static_cast<int64_t>(multiple)];
    }
    double statistic = 0, cells = 0;
    for (const auto& [multiple, count] : counts) {
      const double from = (static_cast<double>(multiple) - 0.5) * grid.spacing() - value;
      const double expected = kDraws * (Phi(from + grid.spacing()) - Phi(from));
      if (expected >= 50) {
        statistic += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
        ++cells;
      }
    }
    EXPECT_GT(cells, 90);
    EXPECT_NEAR(statistic, cells, 5 * std::sqrt(2 * cells)) << value;
  }
}

}  // namespace
}  // namespace splitveil
