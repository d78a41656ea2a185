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
  const ClassMoments moments = *ComputeClassMoments(batch.gradients, batch.labels);
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
    const auto report = protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, limit, out_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LE(report->sum_kl, limit);
    EXPECT_NEAR(report->sum_kl, limit, 2e-9 * limit);
  }
}

TEST_P(RaisedNoiseTest, IsAsConfiguredWhereThatIsEnough) {
  const auto configured = protection_->Perturb(batch_.gradients, batch_.labels, kPosition, out_);
  const auto within =
      protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, 1.0001 * configured->sum_kl, again_);
  ASSERT_TRUE(within.ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(RaisedNoiseTest, GivesTheSameBytesWhateverWasAskedOfTheBatchBefore) {
  ASSERT_TRUE(protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, 0.01, out_).ok());
  ASSERT_TRUE(protection_->Perturb(batch_.gradients, batch_.labels, kPosition, again_).ok());
  ASSERT_TRUE(protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, 0.001, again_).ok());
  ASSERT_TRUE(protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, 0.01, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

// What a batch of one class falls back on counts each earlier batch once, however often it was perturbed.
TEST_P(RaisedNoiseTest, CountsABatchOnceInTheRunsAverages) {
  const auto fallen_back = [&](int times) {
    const auto protection = MakeProtection(GetParam());
    Matrix out;
    for (uint32_t step = 0; step < 2; ++step) {
      const LabelledBatch batch = MakeLabelledBatch(64, 8, 1, step + 1);
      for (int i = 0; i < times; ++i) {
        EXPECT_TRUE(protection->Perturb(batch.gradients, batch.labels, {0, step, 0}, out).ok());
      }
    }
    LabelledBatch single = MakeLabelledBatch(16, 8, 1, 9);
    single.labels.assign(16, 0);
    EXPECT_TRUE(protection->Perturb(single.gradients, single.labels, {0, 2, 0}, out).ok());
    return ValuesOf(out);
  };
  EXPECT_EQ(fallen_back(1), fallen_back(3));
}

TEST_P(RaisedNoiseTest, KeepsTheLimitForABatchOfOneClass) {
  ASSERT_TRUE(protection_->Perturb(batch_.gradients, batch_.labels, {0, 0, 0}, out_).ok());
  LabelledBatch single = MakeLabelledBatch(16, 8, 1, 2);
  single.labels.assign(16, 0);
  const auto report = protection_->PerturbWithin(single.gradients, single.labels, {0, 1, 0}, 0.01, out_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(report->sum_kl, 0.01);
  for (int64_t j = 0; j < 16; ++j) {
    EXPECT_NE(out_.row(j), single.gradients.row(j));
  }
}

TEST_P(RaisedNoiseTest, FailsForABatchOfOneClassBeforeAnyOther) {
  LabelledBatch single = MakeLabelledBatch(16, 8);
  single.labels.assign(16, 1);
  const auto report = protection_->PerturbWithin(single.gradients, single.labels, kPosition, 0.1, out_);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(out_.size(), 0);
}

TEST_P(RaisedNoiseTest, KeepsTheLimitForABatchOfOneClassThatWasPrimed) {
  ASSERT_TRUE(protection_->PrimeMoments(batch_.gradients, batch_.labels).ok());
  LabelledBatch single = MakeLabelledBatch(16, 8, 1, 2);
  single.labels.assign(16, 1);
  const auto report = protection_->PerturbWithin(single.gradients, single.labels, kPosition, 0.1, out_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LE(report->sum_kl, 0.1);
  EXPECT_NE(ValuesOf(out_), ValuesOf(single.gradients));
}

// What was anticipated counts for nothing once a batch of both classes has been perturbed.
TEST_P(RaisedNoiseTest, ForgetsWhatWasPrimedWithTheFirstBatchOfBothClasses) {
  const auto unprepared = MakeProtection(GetParam());
  ASSERT_TRUE(
      protection_->PrimeMoments(MakeLabelledBatch(32, 8, 5, 4).gradients, MakeLabelledBatch(32, 8).labels).ok());
  LabelledBatch single = MakeLabelledBatch(16, 8, 1, 2);
  single.labels.assign(16, 0);
  for (GradientProtection* protection : {protection_.get(), unprepared.get()}) {
    Matrix& out = protection == unprepared.get() ? again_ : out_;
    ASSERT_TRUE(protection->Perturb(batch_.gradients, batch_.labels, {0, 0, 0}, out).ok());
    ASSERT_TRUE(protection->Perturb(single.gradients, single.labels, {0, 1, 0}, out).ok());
    ASSERT_TRUE(
        protection->PrimeMoments(MakeLabelledBatch(32, 8, 9, 4).gradients, MakeLabelledBatch(32, 8).labels).ok());
    ASSERT_TRUE(protection->Perturb(single.gradients, single.labels, {0, 2, 0}, out).ok());
  }
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(RaisedNoiseTest, IsPrimedByNothingFromOneClassOrNumbersThatAreNotFinite) {
  LabelledBatch single = MakeLabelledBatch(16, 8);
  single.labels.assign(16, 0);
  EXPECT_TRUE(protection_->PrimeMoments(single.gradients, single.labels).ok());
  EXPECT_FALSE(protection_->PerturbWithin(single.gradients, single.labels, kPosition, 0.1, out_).ok());
  LabelledBatch bad = MakeLabelledBatch(16, 8);
  bad.gradients.row(0)[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(protection_->PrimeMoments(bad.gradients, bad.labels).code(), absl::StatusCode::kInternal);
}

TEST_P(RaisedNoiseTest, FailsWhereAFloatCannotHoldTheNoiseAndLeavesNothing) {
  for (double limit : {1e-80, 1e-300, std::numeric_limits<double>::denorm_min()}) {
    const auto report = protection_->PerturbWithin(batch_.gradients, batch_.labels, kPosition, limit, out_);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << limit;
    EXPECT_EQ(out_.size(), 0);
  }
  EXPECT_TRUE(protection_->Perturb(batch_.gradients, batch_.labels, kPosition, out_).ok());
}

TEST(RaisedNoiseOfOthersTest, FailsForMethodsWithoutADivergenceToLower) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out(64, 8);
  for (const char* method : {"none {}", "max_norm {}"}) {
    EXPECT_FALSE(CanRaiseNoise(ProtectionConfig(method)));
    const auto report = MakeProtection(method)->PerturbWithin(batch.gradients, batch.labels, kPosition, 1, out);
    EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << method;
    EXPECT_EQ(out.size(), 0);
  }
  EXPECT_TRUE(CanRaiseNoise(ProtectionConfig("iso { t: 1 }")));
}

}  // namespace
}  // namespace splitveil
