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
#include "tests/unit/common/crypto/low_bits.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{1, 2, 0};

NoisePlan Isotropic(double stddev) { return {EmptyReport("iso"), GaussianNoise{{}, {0, 0, stddev}, {0, 0, stddev}}}; }

std::vector<float> Applied(const NoisePlan& plan, const std::vector<float>& components) {
  Matrix gradients(2, static_cast<int64_t>(components.size()) / 2);
  std::copy(components.begin(), components.end(), gradients.data());
  Matrix out;
  const std::vector<uint8_t> labels = {0, 1};
  EXPECT_TRUE(ApplyPlan(plan, {gradients, labels}, kPosition, /*gaussian=*/nullptr, out).ok());
  return ValuesOf(out);
}

TEST(ApplyPlanTest, ChangesNothingWhereThePlanDoesNot) {
  const std::vector<float> components = {1, -2, 0.5f, 0, -0.25f, 3};
  EXPECT_EQ(Applied({EmptyReport("none"), NoChange{}}, components), components);
}

TEST(ApplyPlanTest, KeepsTheLargestAndTheFirstOfTheirEquals) {
  EXPECT_EQ(Applied({EmptyReport("sparsify"), KeepLargest{0.5}}, {1, -1, 2, 1, 0.5f, -1}),
            (std::vector<float>{1, -1, 2, 0, 0, 0}));
}

TEST(ApplyPlanTest, RoundsToTheNearestBinAndClipsBeyondTheEnds) {
  // Mean 0 and standard deviation 1: bins at -2, 0 and 2.
  const float small = std::sqrt(0.1475F);
  const std::vector<float> out = Applied({EmptyReport("discretize"), RoundToBins{3}},
                                         {-2.1F, 2.1F, small, small, small, small, -small, -small, -small, -small});
  EXPECT_NEAR(out[0], -2, 1e-5);
  EXPECT_NEAR(out[1], 2, 1e-5);
  for (size_t i = 2; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], 0, 1e-5);
  }
}

TEST(ApplyPlanTest, LeavesComponentsThatAreAllEqual) {
  const std::vector<float> components(6, 0.7F);
  EXPECT_EQ(Applied({EmptyReport("discretize"), RoundToBins{3}}, components), components);
}

TEST(ApplyPlanTest, GivesARowTheNoiseOfItsClass) {
  const Matrix zeros(2, 8);
  const std::vector<uint8_t> labels = {0, 1};
  const auto gaussian = FixedGaussian();
  Matrix out;
  const NoisePlan plan{EmptyReport("marvell"), GaussianNoise{{}, RowNoise(), {0, 0, 1}}};
  ASSERT_TRUE(ApplyPlan(plan, {zeros, labels}, kPosition, gaussian.get(), out).ok());
  EXPECT_EQ(SquaredNorm(out.row(0)), 0);
  EXPECT_GT(SquaredNorm(out.row(1)), 0);
}

TEST(ApplyPlanTest, DrawsTheSameNoiseOnAnotherScaleForAnotherStrength) {
  const Matrix zeros(3, 8);
  const std::vector<uint8_t> labels(3);
  const auto gaussian = FixedGaussian();
  Matrix once;
  Matrix twice;
  for (const auto& [stddev, out] : {std::pair{1.0, &once}, {2.0, &twice}}) {
    ASSERT_TRUE(ApplyPlan(Isotropic(stddev), {zeros, labels}, kPosition, gaussian.get(), *out).ok());
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
  const std::vector<uint8_t> labels(static_cast<size_t>(gradients.rows()));
  EXPECT_TRUE(ApplyPlan(plan, {gradients, labels}, kPosition, gaussian.get(), out).ok());
  return out;
}

double NoiseCorrelation(const Matrix& a, const Matrix& b) {
  return InnerProduct({a.data(), static_cast<size_t>(a.size())}, {b.data(), static_cast<size_t>(b.size())}) /
         static_cast<double>(a.size());
}

TEST(ApplyPlanTest, UnderAKeptKeyTheSameGradientsAndPlanGetTheSameBytes) {
  const LabelledBatch batch = MakeLabelledBatch(64, 32);
  const NoisePlan plan = Isotropic(1);
  EXPECT_EQ(ValuesOf(AppliedUnderAKeptKey(plan, batch.gradients)),
            ValuesOf(AppliedUnderAKeptKey(plan, batch.gradients)));
}

// Else the noise would cancel out of the difference of two releases.
TEST(ApplyPlanTest, UnderAKeptKeyAnyOtherGradientOrPlanGetsIndependentNoise) {
  const Matrix zeros(64, 32);
  const Matrix noise = AppliedUnderAKeptKey(Isotropic(1), zeros);
  EXPECT_NEAR(NoiseCorrelation(noise, noise), 1, 0.2);
  constexpr double kSixSigma = 0.14;  // Of the mean of 2,048 products.
  Matrix one_component = Matrix(zeros);
  one_component.data()[1000] = 1e-6f;
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(Isotropic(1), one_component), noise)), kSixSigma);
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(Isotropic(1 + 1e-9), zeros), noise)), kSixSigma);
  NoisePlan direction = Isotropic(1);
  std::get<GaussianNoise>(direction.change).direction.assign(32, 0);
  EXPECT_LT(std::abs(NoiseCorrelation(AppliedUnderAKeptKey(direction, zeros), noise)), kSixSigma);
}

// A row whose clean gradient is zero, as of a label that is predicted for certain, is noise alone. Among others of 3e-3
// standard deviations a component, real noise hides it (AUC 0.504 at most); a sum of floats shows it in its low bits.
TEST(ApplyPlanTest, TheLowBitsDoNotShowTheCleanRow) {
  constexpr int64_t kRows = 800, kWidth = 16;
  constexpr double kStddev = 10;
  const NoisePlan plans[] = {
      Isotropic(kStddev),
      {EmptyReport("marvell"), GaussianNoise{std::vector<float>(kWidth, 0.25F), {0, 0.5, kStddev}, {0, 0.25, kStddev}}},
  };
  Matrix gradients(kRows, kWidth);
  std::vector<uint8_t> labels;
  for (int64_t j = 0; j < kRows; ++j) {
    labels.push_back(j % 2);
    std::fill_n(gradients.row(j).data(), kWidth, j % 2 == 0 ? 0.0F : 0.0301F);
  }
  for (const NoisePlan& plan : plans) {
    const auto gaussian = FixedGaussian();
    Matrix out;
    ASSERT_TRUE(ApplyPlan(plan, {gradients, labels}, kPosition, gaussian.get(), out).ok());
    std::vector<double> scores[2];
    for (int64_t j = 0; j < kRows; ++j) {
      scores[labels[j]].push_back(-ReachableShare(out.row(j), std::vector<float>(kWidth), kStddev));
    }
    EXPECT_NEAR(AucOfScores(scores[1], scores[0]), 0.5, 4.5 * 0.0204) << plan.report.method;
  }
}

// Whatever noise its class has, so that no row shows its class by the digits that it has.
TEST(ApplyPlanTest, AllRowsAreOnOneGrid) {
  const GaussianNoise one_class{std::vector<float>(8, 0.35F), RowNoise(), {0, 2, 0}};
  const NoisePlan plans[] = {
      Isotropic(3),
      {EmptyReport("marvell"), one_class},
      {EmptyReport("marvell"), GaussianNoise{one_class.direction, {0, 0, 1e-3}, {0, 2, 1}}},
      {EmptyReport("max_norm"), EvenLengths{20}},
  };
  const double spacings[] = {0.125, 0x1p-13, 0x1p-14, 0x1p-10};
  const LabelledBatch batch = MakeLabelledBatch(50, 8);
  for (size_t i = 0; i < std::size(plans); ++i) {
    const auto gaussian = FixedGaussian();
    Matrix out;
    ASSERT_TRUE(ApplyPlan(plans[i], {batch.gradients, batch.labels}, kPosition, gaussian.get(), out).ok());
    for (const float value : ValuesOf(out)) {
      EXPECT_EQ(std::round(value / spacings[i]), value / spacings[i]) << i;
    }
  }
}

TEST(ApplyPlanTest, LeavesNothingWhereAFloatCannotHoldTheResult) {
  const LabelledBatch batch = MakeLabelledBatch(3, 8);
  const auto gaussian = FixedGaussian();
  Matrix out(3, 8);
  const NoisePlan plan{EmptyReport("iso"), GaussianNoise{{}, {0, 0, 1e60}, {0, 0, 1e60}}};
  EXPECT_EQ(ApplyPlan(plan, {batch.gradients, batch.labels}, kPosition, gaussian.get(), out).code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(out.size(), 0);
}

class PlanTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<GradientProtection> protection_ = MakeProtection(GetParam());
  const LabelledBatch batch_ = MakeLabelledBatch(64, 8);
  const HeadBehind head_{batch_.gradients, batch_.labels};
  Matrix out_, again_;
};

INSTANTIATE_TEST_SUITE_P(Methods, PlanTest,
                         ::testing::Values("iso { t: 1 }", "max_norm {}", "marvell { s: 4 }",
                                           "marvell { sum_kl: 0.25 orthogonal_noise_ratio: 1 }",
                                           "sparsify { keep: 0.2 }", "discretize { bins: 6 }"));

TEST_P(PlanTest, PlanningIsPureAndTheSameDrawFollowsWhateverWasPlannedBefore) {
  const BatchFacts facts = *protection_->Describe(head_.label_free(), kPosition);
  const NoisePlan first = *protection_->Plan(facts, GradientProtection::kAsConfigured);
  for (double limit : {0.1, 1e-3, 1e-80}) {
    (void)protection_->Plan(facts, limit);  // May be refused.
  }
  const NoisePlan second = *protection_->Plan(facts, GradientProtection::kAsConfigured);
  ASSERT_TRUE(protection_->Apply(first, {batch_.gradients, batch_.labels}, kPosition, out_).ok());
  ASSERT_TRUE(protection_->Apply(second, {batch_.gradients, batch_.labels}, kPosition, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
  ASSERT_TRUE(PerturbRows(*MakeProtection(GetParam()), batch_.gradients, batch_.labels, kPosition, again_).ok());
  EXPECT_EQ(ValuesOf(out_), ValuesOf(again_));
}

TEST_P(PlanTest, NothingOfAReportDependsOnTheKey) {
  const auto other = MakeProtection(GetParam(), /*key_byte=*/8);
  const BatchFacts facts = *protection_->Describe(head_.label_free(), kPosition);
  const BatchFacts same = *other->Describe(head_.label_free(), kPosition);
  const ProtectionReport report = protection_->Plan(facts, GradientProtection::kAsConfigured)->report;
  const ProtectionReport others = other->Plan(same, GradientProtection::kAsConfigured)->report;
  EXPECT_EQ(report.method, others.method);
  EXPECT_TRUE(report.power == others.power || report.power != report.power);
  EXPECT_TRUE(report.sum_kl == others.sum_kl || report.sum_kl != report.sum_kl);
}

// The rule that keeps one label out of the noise of all other rows: it is another row's label, and the same head, so
// the noise must be the same to the last bit.
TEST_P(PlanTest, NoOtherRowsLabelMovesTheNoise) {
  if (!MakeProtection(GetParam())->Plan({kPosition, ExpectedMomentsOf(batch_.gradients, batch_.labels)}, 1e9).ok()) {
    return;  // It draws none.
  }
  LabelledBatch other{Matrix(batch_.gradients), batch_.labels};
  const int64_t target = 5;
  other.labels[target] = 1 - other.labels[target];
  for (int64_t k = 0; k < 8; ++k) {
    other.gradients.row(target)[k] =
        (head_.probabilities[target] - static_cast<float>(other.labels[target])) * head_.directions.row(target)[k];
  }
  for (const LabelledBatch* batch : {&batch_, static_cast<const LabelledBatch*>(&other)}) {
    ASSERT_TRUE(protection_
                    ->Perturb(head_.label_free(), {batch->gradients, batch->labels}, kPosition,
                              batch == &batch_ ? out_ : again_)
                    .ok());
  }
  for (int64_t j = 0; j < 64; ++j) {
    if (j != target) {
      EXPECT_EQ(out_.row(j), again_.row(j)) << j;
    }
  }
}

}  // namespace
}  // namespace splitveil
