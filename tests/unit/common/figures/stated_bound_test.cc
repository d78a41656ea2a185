#include "common/figures/stated_bound.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A run whose steps nearly all allow anything is not held by the one that does not.
TEST(StatedBoundTest, OneStepWithABoundSpeaksForNoRun) {
  std::vector<double> steps(40, 1.0);
  steps[7] = 0.6;
  EXPECT_EQ(StepAucBoundP95(steps), 1);
  std::vector<double> bounded(40, 0.6);
  bounded[7] = 0.9;
  EXPECT_EQ(StepAucBoundP95(bounded), 0.6);
  bounded[8] = bounded[9] = bounded[10] = kNan;  // More than 5% of the steps, and without a bound.
  EXPECT_EQ(StepAucBoundP95(bounded), 1);
  EXPECT_FALSE(StepAucBoundP95({}).has_value());
}

TEST(StatedBoundTest, AStepIsBoundedByWhatEitherBoundAllows) {
  EXPECT_EQ(StepAucBound(0.8, kNan), 0.8);
  EXPECT_EQ(StepAucBound(1, std::numeric_limits<double>::infinity()), 1);
  EXPECT_NEAR(StepAucBound(1, 4), 0.5 * std::erfc(-1), 1e-12);  // Theorem 1 says nothing from 4 on.
  EXPECT_NEAR(StepAucBound(kNan, 4), 0.5 * std::erfc(-1), 1e-12);
  EXPECT_TRUE(std::isnan(StepAucBound(kNan, kNan)));
}

TEST(StatedBoundTest, WhatDoesNotExistOrIsPrintedAsOnePromisesNothing) {
  EXPECT_TRUE(Promises(0.7));
  EXPECT_FALSE(Promises(0.9996));
  EXPECT_FALSE(Promises(std::nullopt));
  EXPECT_FALSE(Promises(kNan));
}

TEST(StatedBoundTest, NoiseOnLabelsAloneIsProved) {
  EXPECT_TRUE(IsBoundProved("gaussian_label_dp(sigma=2)"));
  for (const char* conditional : {"marvell(s=4)", "label_dp(epsilon=1)", "none", ""}) {
    EXPECT_FALSE(IsBoundProved(conditional)) << conditional;
  }
}

}  // namespace
}  // namespace splitveil
