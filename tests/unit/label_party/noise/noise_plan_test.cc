// What is planned and what is drawn, apart.
#include "label_party/noise/noise_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{1, 2, 0};

std::vector<float> Applied(const NoisePlan& plan, const std::vector<float>& components) {
  Matrix gradients(2, static_cast<int64_t>(components.size()) / 2);
  std::copy(components.begin(), components.end(), gradients.data());
  Matrix out;
  EXPECT_TRUE(ApplyPlan(plan, gradients, kPosition, /*gaussian=*/nullptr, out).ok());
  return ValuesOf(out);
}

TEST(ApplyPlanTest, ChangesNothingWhereThePlanDoesNot) {
  const std::vector<float> components = {1, -2, 0.5f, 0, -0.25f, 3};
  EXPECT_EQ(Applied({EmptyReport("none"), NoChange{}}, components), components);
}

TEST(ApplyPlanTest, KeepsTheLargestAndTheFirstOfTheirEquals) {
  EXPECT_EQ(Applied({EmptyReport("sparsify"), KeepLargest{1, 2}}, {1, -1, 2, 1, 0.5f, -1}),
            (std::vector<float>{1, -1, 2, 0, 0, 0}));
}

TEST(ApplyPlanTest, RoundsToTheNearestBinAndClipsBeyondTheEnds) {
  EXPECT_EQ(Applied({EmptyReport("discretize"), RoundToBins{-2, 2, 3}}, {-9, -1.5f, 0.5f, 0.9f, 1.1f, 9}),
            (std::vector<float>{-2, -2, 0, 0, 2, 2}));
}

TEST(ApplyPlanTest, DrawsTheSameNoiseOnAnotherScaleForAnotherStrength) {
  const Matrix zeros(3, 8);
  const auto gaussian = FixedGaussian();
  Matrix once;
  Matrix twice;
  for (const auto& [stddev, out] : {std::pair{1.0, &once}, {2.0, &twice}}) {
    const NoisePlan plan{EmptyReport("iso"), GaussianNoise{{}, std::vector<RowNoise>(3, RowNoise{0, 0, stddev})}};
    ASSERT_TRUE(ApplyPlan(plan, zeros, kPosition, gaussian.get(), *out).ok());
  }
  for (int64_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(twice.data()[i], 2 * once.data()[i]);
  }
}

// As after a crash: another process, the same key.
Matrix AppliedUnderAKeptKey(const NoisePlan& plan, const Matrix& gradients) {
  std::array<uint8_t, 32> bytes;
  bytes.fill(7);
  const auto gaussian = *SecureGaussian::Create(SecretKey(bytes), SecureGaussian::KeyLife::kManyRuns);
  Matrix out;
  EXPECT_TRUE(ApplyPlan(plan, gradients, kPosition, gaussian.get(), out).ok());
  return out;
}

double NoiseCorrelation(const Matrix& a, const Matrix& b) {
  return InnerProduct({a.data(), static_cast<size_t>(a.size())}, {b.data(), static_cast<size_t>(b.size())}) /
         static_cast<double>(a.size());
}

TEST(ApplyPlanTest, UnderAKeptKeyTheSameGradientsAndPlanGetTheSameBytes) {
  const LabelledBatch batch = MakeLabelledBatch(64, 32);
  const NoisePlan plan{EmptyReport("iso"), GaussianNoise{{}, std::vector<RowNoise>(64, RowNoise{0, 0, 1})}};
  EXPECT_EQ(ValuesOf(AppliedUnderAKeptKey(plan, batch.gradients)),
            ValuesOf(AppliedUnderAKeptKey(plan, batch.gradients)));
}

// Else the noise would cancel out of the difference of two releases.
TEST(ApplyPlanTest, UnderAKeptKeyAnyOtherGradientOrPlanGetsIndependentNoise) {
  const Matrix zeros(64, 32);
  const auto iso = [](double stddev) {
    return NoisePlan{EmptyReport("iso"), GaussianNoise{{}, std::vector<RowNoise>(64, RowNoise{0, 0, stddev})}};
  };
  const Matrix noise = AppliedUnderAKeptKey(iso(1), zeros);
  EXPECT_NEAR(NoiseCorrelation(noise, noise), 1, 0.2);
  constexpr double kSixSigma = 0.14;  // Of the mean of 2,048 products.
  Matrix one_component = Matrix(zeros);
  one_component.data()[1000] = 1e-6f;
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(iso(1), one_component), noise)), kSixSigma);
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(iso(1 + 1e-9), zeros), noise)), kSixSigma);
  NoisePlan one_row = iso(1);
  std::get<GaussianNoise>(one_row.change).of_row[63].across = 1.5;
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(one_row, zeros), noise)), 1.5 * kSixSigma);
  NoisePlan direction = iso(1);
  std::get<GaussianNoise>(direction.change).direction.assign(32, 0);
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(direction, zeros), noise)), kSixSigma);
}

TEST(ApplyPlanTest, LeavesNothingWhereAFloatCannotHoldTheResult) {
  const LabelledBatch batch = MakeLabelledBatch(3, 8);
  const auto gaussian = FixedGaussian();
  Matrix out(3, 8);
  const NoisePlan plan{EmptyReport("iso"), GaussianNoise{{}, std::vector<RowNoise>(3, RowNoise{0, 0, 1e60})}};
  EXPECT_EQ(ApplyPlan(plan, batch.gradients, kPosition, gaussian.get(), out).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(out.size(), 0);
}

class PlanTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<GradientProtection> protection_ = MakeProtection(GetParam());
  const LabelledBatch batch_ = MakeLabelledBatch(64, 8);
  Matrix out_, again_;
};

INSTANTIATE_TEST_SUITE_P(Methods, PlanTest,
                         ::testing::Values("iso { t: 1 }", "max_norm {}", "marvell { s: 4 }",
                                           "marvell { sum_kl: 0.25 orthogonal_noise_ratio: 1 }",
                                           "sparsify { keep: 0.2 }", "discretize { bins: 6 }"));

TEST_P(PlanTest, PlanningIsPureAndTheSameDrawFollowsWhateverWasPlannedBefore) {
  const BatchFacts facts = *protection_->Describe(batch_.gradients, batch_.labels, kPosition);
  const NoisePlan first = *protection_->Plan(facts, GradientProtection::kAsConfigured);
  for (double limit : {0.1, 1e-3, 1e-80}) {
    (void)protection_->Plan(facts, limit);  // May be refused.
  }
  const NoisePlan second = *protection_->Plan(facts, GradientProtection::kAsConfigured);
  ASSERT_TRUE(protection_->Apply(first, facts, out_).ok());
  ASSERT_TRUE(protection_->Apply(second, facts, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
  ASSERT_TRUE(MakeProtection(GetParam())->Perturb(batch_.gradients, batch_.labels, kPosition, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(PlanTest, NothingOfAReportDependsOnTheKey) {
  const auto other = MakeProtection(GetParam(), /*key_byte=*/8);
  const BatchFacts facts = *protection_->Describe(batch_.gradients, batch_.labels, kPosition);
  const BatchFacts same = *other->Describe(batch_.gradients, batch_.labels, kPosition);
  const ProtectionReport report = protection_->Plan(facts, GradientProtection::kAsConfigured)->report;
  const ProtectionReport others = other->Plan(same, GradientProtection::kAsConfigured)->report;
  EXPECT_EQ(report.method, others.method);
  EXPECT_TRUE(report.power == others.power || report.power != report.power);
  EXPECT_TRUE(report.sum_kl == others.sum_kl || report.sum_kl != report.sum_kl);
}

// A batch that is described and not drawn, since the gate blocks it, still counts in the run's averages: they are of
// gradients, not of releases.
TEST(GradientProtectionMomentsTest, CountWhatWasDescribed) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  const auto protection = MakeProtection("marvell { s: 4 }");
  EXPECT_FALSE(protection->Moments().has_value());
  ASSERT_TRUE(protection->Describe(batch.gradients, batch.labels, kPosition).ok());
  ASSERT_TRUE(protection->Moments().has_value());
  EXPECT_EQ(protection->Moments()->dg_squared, ComputeClassMoments(batch.gradients, batch.labels)->dg_squared);
}

TEST(GradientProtectionMomentsTest, AreNotKeptByMethodsThatGoByNone) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  for (const char* method : {"none {}", "sparsify { keep: 0.2 }", "label_dp { epsilon: 1 }"}) {
    const auto protection = MakeProtection(method);
    protection->RestoreMoments(*ComputeClassMoments(batch.gradients, batch.labels));
    EXPECT_TRUE(protection->PrimeMoments(Matrix(), {}).ok());
    if (protection->changes_gradients()) {
      ASSERT_TRUE(protection->Describe(batch.gradients, batch.labels, kPosition).ok());
    }
    EXPECT_FALSE(protection->Moments().has_value()) << method;
  }
}

}  // namespace
}  // namespace splitveil
