// Noise that is asked to be stronger than configured: PerturbWithin, and the inverse for isotropic noise.
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/linear_algebra.h"
#include "label_party/noise/noise_planner.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{1, 2, 0};

double IsotropicSumKl(const ClassMoments& m, double variance) {
  return SumKl({static_cast<int64_t>(m.mean_difference.size()), m.dg_squared, m.u + variance, m.u + variance,
                m.v + variance, m.v + variance});
}

TEST(LeastIsotropicVarianceTest, IsTheLeastThatKeepsTheLimit) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  const ClassMoments moments = ExpectedMomentsOf(batch.gradients, batch.labels);
  for (double limit : {10.0, 1.0, 0.1, 1e-4, 1e-9}) {
    const double variance = LeastIsotropicVariance(moments, limit);
    EXPECT_LE(IsotropicSumKl(moments, variance), limit) << limit;
    EXPECT_GT(IsotropicSumKl(moments, variance * (1 - 1e-8)), limit * (1 - 1e-12)) << limit;
  }
}

// Classes without spread: sum_kl = ||dg||^2 / variance.
TEST(LeastIsotropicVarianceTest, HasAClosedFormWithoutSpread) {
  ClassMoments moments;
  moments.mean_difference = {3, 4};
  moments.dg_squared = 25;
  EXPECT_NEAR(LeastIsotropicVariance(moments, 0.5), 50, 1e-6);
}

TEST(LeastIsotropicVarianceTest, IsNothingForEqualClassesAndInfiniteBeyondADouble) {
  ClassMoments moments;
  moments.mean_difference = {0, 0};
  EXPECT_EQ(LeastIsotropicVariance(moments, 0.5), 0);
  moments.dg_squared = 1e300;
  EXPECT_EQ(LeastIsotropicVariance(moments, 1e-300), std::numeric_limits<double>::infinity());
}

class RaisedNoiseTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<GradientProtection> protection_ = MakeProtection(GetParam());
  const LabelledBatch batch_ = MakeLabelledBatch(64, 8);
  Matrix out_, again_;
};

INSTANTIATE_TEST_SUITE_P(Methods, RaisedNoiseTest,
                         ::testing::Values("iso { t: 1 }", "marvell { s: 4 }", "marvell { sum_kl: 0.25 }",
                                           "marvell { run_budget { planned_epochs: 3 } }"));

TEST_P(RaisedNoiseTest, KeepsTheLimitWithNoMoreNoiseThanItTakes) {
  for (double limit : {0.1, 0.01, 1e-4}) {
    const auto report = PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, limit, out_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LE(report->sum_kl, limit);
    EXPECT_NEAR(report->sum_kl, limit, 2e-9 * limit);
  }
}

TEST_P(RaisedNoiseTest, IsAsConfiguredWhereThatIsEnough) {
  const auto configured = PerturbRows(*protection_, batch_.gradients, batch_.labels, kPosition, out_);
  const auto within =
      PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, 1.0001 * configured->sum_kl, again_);
  ASSERT_TRUE(within.ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(RaisedNoiseTest, GivesTheSameBytesWhateverWasAskedOfTheBatchBefore) {
  ASSERT_TRUE(PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, 0.01, out_).ok());
  ASSERT_TRUE(PerturbRows(*protection_, batch_.gradients, batch_.labels, kPosition, again_).ok());
  ASSERT_TRUE(PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, 0.001, again_).ok());
  ASSERT_TRUE(PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, 0.01, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(RaisedNoiseTest, KeepsTheLimitForABatchOfOneClass) {
  LabelledBatch single = MakeLabelledBatch(16, 8, 1, 2);
  single.labels.assign(16, 0);
  const auto report = PerturbRowsWithin(*protection_, single.gradients, single.labels, {0, 1, 0}, 0.01, out_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(report->sum_kl, 0.01);
  for (int64_t j = 0; j < 16; ++j) {
    EXPECT_NE(out_.row(j), single.gradients.row(j));
  }
}

TEST_P(RaisedNoiseTest, FailsWhereAFloatCannotHoldTheNoiseAndLeavesNothing) {
  for (double limit : {1e-80, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    const auto report = PerturbRowsWithin(*protection_, batch_.gradients, batch_.labels, kPosition, limit, out_);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << limit;
    EXPECT_EQ(out_.size(), 0);
  }
  EXPECT_TRUE(PerturbRows(*protection_, batch_.gradients, batch_.labels, kPosition, out_).ok());
}

TEST(RaisedNoiseOfOthersTest, FailsForMethodsWithoutADivergenceToLower) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out(64, 8);
  for (const char* method : {"none {}", "max_norm {}"}) {
    EXPECT_FALSE(CanRaiseNoise(ProtectionConfig(method)));
    const auto report = PerturbRowsWithin(*MakeProtection(method), batch.gradients, batch.labels, kPosition, 1, out);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << method;
    EXPECT_EQ(out.size(), 0);
  }
  EXPECT_TRUE(CanRaiseNoise(ProtectionConfig("iso { t: 1 }")));
}

}  // namespace
}  // namespace splitveil
