// label_dp, sparsify and discretize.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/bounds.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/protection/gradient_protection.h"
#include "tests/testing/drawn_targets.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{1, 2, 0};

Matrix MatrixOf(int64_t rows, const std::vector<float>& values) {
  Matrix matrix(rows, static_cast<int64_t>(values.size()) / rows);
  std::copy(values.begin(), values.end(), matrix.data());
  return matrix;
}

SecretKey FixedKey(uint8_t key_byte) {
  std::array<uint8_t, 32> key;
  key.fill(key_byte);
  return SecretKey(key);
}

std::shared_ptr<LabelRandomizer> FixedLabelDp(double epsilon, uint8_t key_byte = 7) {
  return *LabelRandomizer::Create(epsilon, FixedKey(key_byte));
}

// The gradients' side of label_dp; its targets are drawn already, for `labels`, unless there are none.
GradientProtection ProtectionAfter(double epsilon, const std::vector<uint8_t>& labels) {
  std::shared_ptr<LabelRandomizer> randomizer = FixedLabelDp(epsilon);
  if (!labels.empty()) {
    DrawTargets(*randomizer, labels);
  }
  return GradientProtection(std::make_unique<LabelDpMethod>(std::move(randomizer)));
}

TEST(LabelDpTest, TargetsAreUnbiasedForBothClasses) {
  for (uint8_t label : {0, 1}) {
    const std::vector<uint8_t> labels(200'000, label);
    const std::vector<float> targets = DrawTargets(*FixedLabelDp(1), labels);
    double sum = 0;
    for (float target : targets) {
      sum += target;
    }
    // A target's standard deviation is sqrt(rho (1 - rho)) / (1 - 2 rho) = 0.96; six of the mean's. The key is fixed.
    EXPECT_NEAR(sum / 200'000, label, 6 * 0.96 / std::sqrt(200'000.0));
  }
}

TEST(LabelDpTest, FlipsAreTheSameForTheSameKeyAndOthersForAnother) {
  const std::vector<uint8_t> labels(500, 1);
  const std::shared_ptr<LabelRandomizer> protection = FixedLabelDp(0.5);
  EXPECT_EQ(DrawTargets(*protection, labels), DrawTargets(*protection, labels));
  EXPECT_EQ(DrawTargets(*protection, labels), DrawTargets(*FixedLabelDp(0.5), labels));
  EXPECT_NE(DrawTargets(*protection, labels), DrawTargets(*FixedLabelDp(0.5, 8), labels));
}

TEST(LabelDpTest, KeyIsDrawnSecretly) {
  const std::vector<uint8_t> labels(500, 1);
  EXPECT_NE(DrawTargets(MakeBothSides("label_dp { epsilon: 0.5 }"), labels),
            DrawTargets(MakeBothSides("label_dp { epsilon: 0.5 }"), labels));
}

ProtectionReport ReportOfLabelDp(double epsilon) {
  const LabelledBatch batch = MakeLabelledBatch(16, 5);
  GradientProtection protection = ProtectionAfter(epsilon, batch.labels);
  Matrix out;
  const auto report = PerturbRows(protection, batch.gradients, batch.labels, kPosition, out);
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(ValuesOf(out), ValuesOf(batch.gradients));
  return *report;
}

// The bound is the AUC of the best test of one flipped label, e^epsilon / (1 + e^epsilon): a pair is in the right order
// if both are as they were, and in either if one is flipped.
TEST(LabelDpTest, StatesTheAucOfTheRandomisedLabels) {
  for (double epsilon : {0.1, 1.0, 3.0, 10.0}) {
    const ProtectionReport report = ReportOfLabelDp(epsilon);
    const double kept = std::exp(epsilon) / (1 + std::exp(epsilon));
    EXPECT_NEAR(GaussianAucBound(report.sum_kl), kept, 1e-12);
    EXPECT_NEAR(kept, kept * kept + kept * (1 - kept), 1e-15);
    EXPECT_EQ(report.sum_kl_so_far, report.sum_kl);
    EXPECT_EQ(report.flip_epsilon, epsilon);
    // Noise that passes 1/2 with probability rho is 1 / (2 Phi^-1(1 - rho)) strong, and drawn a little stronger.
    EXPECT_LE(report.run_sum_kl, 2 * report.sum_kl);
    EXPECT_GT(report.run_sum_kl, 1.999 * report.sum_kl);
  }
}

// 2 Phi^-1(e^epsilon / (1 + e^epsilon))^2 from the inverse normal distribution of Python's statistics.NormalDist.
TEST(LabelDpTest, StatesTheDivergenceOfGaussianClassesOfTheSameAuc) {
  EXPECT_NEAR(ReportOfLabelDp(3).sum_kl, 5.5800838326, 1e-9);
  EXPECT_NEAR(ReportOfLabelDp(5).sum_kl, 12.2348138221, 1e-9);
  EXPECT_NEAR(ReportOfLabelDp(10).sum_kl, 30.6381218769, 1e-8);
}

// Who sees y' has a ROC of two segments through (rho, 1 - rho), whose area is 1 - rho.
TEST(LabelDpTest, NoBoundIsBelowTheExactAuc) {
  for (double epsilon : {0.1, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0, 6.0, 10.0, 30.0}) {
    const ProtectionReport report = ReportOfLabelDp(epsilon);
    const double exact = std::exp(epsilon) / (1 + std::exp(epsilon));
    EXPECT_GE(GaussianAucBound(report.sum_kl), exact - 1e-15) << epsilon;
    EXPECT_GE(GaussianAucBound(report.run_sum_kl), exact - 1e-15) << epsilon;
    EXPECT_GE(AucBound(report.sum_kl), exact) << epsilon;
  }
}

// AUC of scores of few values, ties counted half.
double AucOf(const std::vector<double>& scores, const std::vector<uint8_t>& labels) {
  std::map<double, std::array<double, 2>> counts;
  std::array<double, 2> all = {};
  for (size_t j = 0; j < scores.size(); ++j) {
    counts[scores[j]][labels[j]] += 1;
    all[labels[j]] += 1;
  }
  double below = 0;  // Negatives with a smaller score.
  double won = 0;
  for (const auto& [score, count] : counts) {
    won += count[1] * (below + count[0] / 2);
    below += count[0];
  }
  return won / (all[0] * all[1]);
}

// The adversary sees y' and ranks by the posterior odds, which y' moves by a factor of e^epsilon: at most 1 - rho among
// examples of one prior, and more across priors that it knows of otherwise.
TEST(LabelDpTest, BoundsTheAucAmongEqualPriorsButNotAcrossThem) {
  constexpr double kEpsilon = 1;
  constexpr size_t kExamples = 100'000;  // Of each prior.
  const double exact = std::exp(kEpsilon) / (1 + std::exp(kEpsilon));
  std::vector<double> all_scores;
  std::vector<uint8_t> all_labels;
  for (size_t positives_of_20 : {1, 10, 19}) {
    std::vector<uint8_t> labels(kExamples);
    for (size_t j = 0; j < kExamples; ++j) {
      labels[j] = j % 20 < positives_of_20 ? 1 : 0;
    }
    const double prior_odds = static_cast<double>(positives_of_20) / static_cast<double>(20 - positives_of_20);
    std::vector<double> scores;
    for (float target : DrawTargets(*FixedLabelDp(kEpsilon), labels)) {
      scores.push_back(std::log(prior_odds) + (target > 0.5f ? kEpsilon : -kEpsilon));
    }
    // The rarer class has 5,000: six standard errors of its share of flips, halved in the AUC.
    EXPECT_NEAR(AucOf(scores, labels), exact, 3 * std::sqrt(exact * (1 - exact) / 5000)) << positives_of_20;
    all_scores.insert(all_scores.end(), scores.begin(), scores.end());
    all_labels.insert(all_labels.end(), labels.begin(), labels.end());
  }
  EXPECT_GT(AucOf(all_scores, all_labels), exact + 0.1);
}

TEST(LabelDpTest, RefusesGradientsOfTheLabelsThemselves) {
  const LabelledBatch batch = MakeLabelledBatch(16, 5);
  Matrix out(16, 5);
  GradientProtection undrawn = ProtectionAfter(1, {});
  EXPECT_EQ(PerturbRows(undrawn, batch.gradients, batch.labels, kPosition, out).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(out.size(), 0);
}

TEST(LabelDpTest, StatesTheSameForABatchOfOneClass) {
  LabelledBatch batch = MakeLabelledBatch(16, 5);
  batch.labels.assign(16, 0);
  GradientProtection protection = ProtectionAfter(1, batch.labels);
  Matrix out;
  const auto report = PerturbRows(protection, batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->sum_kl, ReportOfLabelDp(1).sum_kl);
}

TEST(SparsifyTest, KeepsTheLargestComponentsOfTheBatch) {
  const Matrix gradients = MatrixOf(2, {0.1f, -5, 0.2f, 3, -0.3f, 0.05f});
  Matrix out;
  ASSERT_TRUE(
      PerturbRows(*MakeProtection("sparsify { keep: 0.34 }"), gradients, std::vector<uint8_t>{0, 1}, kPosition, out)
          .ok());
  EXPECT_EQ(ValuesOf(out), (std::vector<float>{0, -5, 0, 3, -0.3f, 0}));  // ceil(0.34 * 6) = 3
}

TEST(SparsifyTest, KeepsTheFirstOfEqualsAndNoMoreThanPromised) {
  const Matrix gradients = MatrixOf(2, {1, -1, 2, 1, -1, 1});
  Matrix out;
  ASSERT_TRUE(
      PerturbRows(*MakeProtection("sparsify { keep: 0.5 }"), gradients, std::vector<uint8_t>{0, 1}, kPosition, out)
          .ok());
  EXPECT_EQ(ValuesOf(out), (std::vector<float>{1, -1, 2, 0, 0, 0}));
}

TEST(DiscretizeTest, PutsEachComponentInTheNearestBin) {
  // Mean 0, sigma 1: bins -2, 0, 2.
  const Matrix gradients = MatrixOf(2, {1, -1, 1, -1, 1, -1, 1, -1});
  Matrix out;
  const auto three = MakeProtection("discretize { bins: 3 }");
  ASSERT_TRUE(PerturbRows(*three, gradients, std::vector<uint8_t>{0, 1}, kPosition, out).ok());
  for (float value : ValuesOf(out)) {
    EXPECT_TRUE(value == 0 || std::abs(value) == 2) << value;
  }
  const auto five = MakeProtection("discretize { bins: 5 }");
  ASSERT_TRUE(PerturbRows(*five, gradients, std::vector<uint8_t>{0, 1}, kPosition, out).ok());
  EXPECT_EQ(ValuesOf(out), ValuesOf(gradients));  // Bins -2, -1, 0, 1, 2.
}

TEST(DiscretizeTest, ClipsWhatLiesBeyondTheBins) {
  std::vector<float> values(100, 0);
  values[3] = 100;
  Matrix out;
  ASSERT_TRUE(PerturbRows(*MakeProtection("discretize { bins: 4 }"), MatrixOf(2, values), std::vector<uint8_t>{0, 1},
                          kPosition, out)
                  .ok());
  EXPECT_NEAR(out.data()[3], 1 + 2 * std::sqrt(99.0), 1e-4);  // Mean 1, sigma sqrt(99).
  const std::vector<float> left = ValuesOf(out);
  EXPECT_EQ(std::set<float>(left.begin(), left.end()).size(), 2);
}

TEST(DiscretizeTest, LeavesEqualComponentsInABinOfTheirOwn) {
  const Matrix gradients = MatrixOf(2, std::vector<float>(8, 0.3f));
  Matrix out;
  ASSERT_TRUE(
      PerturbRows(*MakeProtection("discretize { bins: 4 }"), gradients, std::vector<uint8_t>{0, 1}, kPosition, out)
          .ok());
  EXPECT_EQ(ValuesOf(out), ValuesOf(gradients));
}

// What holds for all three.
class NoiselessProtectionTest : public ::testing::TestWithParam<const char*> {
 protected:
  NoiselessProtectionTest() { DrawTargets(both_sides_, std::vector<uint8_t>(8)); }

  const Protection both_sides_ = MakeBothSides(GetParam());
  GradientProtection* const protection_ = both_sides_.gradients.get();
  Matrix out_{3, 3};
};

INSTANTIATE_TEST_SUITE_P(Methods, NoiselessProtectionTest,
                         ::testing::Values("label_dp { epsilon: 1 }", "sparsify { keep: 0.2 }",
                                           "discretize { bins: 6 }"));

TEST_P(NoiselessProtectionTest, IsTheSameForEveryBatchWhateverItsClasses) {
  LabelledBatch batch = MakeLabelledBatch(16, 8);
  ASSERT_TRUE(PerturbRows(*protection_, batch.gradients, batch.labels, kPosition, out_).ok());
  for (uint32_t step = 0; step < 50; ++step) {
    batch.labels.assign(16, static_cast<uint8_t>(step % 2));
    Matrix out;
    const auto report = PerturbRows(*protection_, batch.gradients, batch.labels, {0, step, 0}, out);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(ValuesOf(out), ValuesOf(out_));
  }
}

TEST_P(NoiselessProtectionTest, CannotRaiseItsNoise) {
  EXPECT_FALSE(CanRaiseNoise(ProtectionConfig(GetParam())));
  const LabelledBatch batch = MakeLabelledBatch(16, 8);
  EXPECT_EQ(PerturbRowsWithin(*protection_, batch.gradients, batch.labels, kPosition, 0.01, out_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(out_.size(), 0);
}

// What holds for those that read the gradients.
class CompressionTest : public NoiselessProtectionTest {};

INSTANTIATE_TEST_SUITE_P(Methods, CompressionTest,
                         ::testing::Values("sparsify { keep: 0.2 }", "discretize { bins: 6 }"));

TEST_P(CompressionTest, RefusesAGradientThatIsNotFiniteAndLeavesNothing) {
  LabelledBatch batch = MakeLabelledBatch(16, 8);
  batch.gradients.row(5)[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(PerturbRows(*protection_, batch.gradients, batch.labels, kPosition, out_).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(out_.size(), 0);
}

TEST_P(CompressionTest, RefusesLabelsThatDoNotFitAndEmptyBatches) {
  const LabelledBatch batch = MakeLabelledBatch(16, 8);
  EXPECT_EQ(PerturbRows(*protection_, batch.gradients, std::vector<uint8_t>{0, 1}, kPosition, out_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(PerturbRows(*protection_, Matrix(), {}, kPosition, out_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A slice of a batch leaves before the rest is there only where this holds.
TEST(GradientProtectionTest, OnlyThoseThatChangeNothingLeaveRowsAlone) {
  const LabelledBatch batch = MakeLabelledBatch(16, 8);
  for (const char* method : {"none {}", "label_dp { epsilon: 1 }", "sparsify { keep: 0.2 }", "discretize { bins: 6 }",
                             "iso { t: 1 }", "max_norm {}", "marvell { s: 4 }"}) {
    const Protection both_sides = MakeBothSides(method);
    DrawTargets(both_sides, batch.labels);
    GradientProtection* const protection = both_sides.gradients.get();
    Matrix out;
    ASSERT_TRUE(PerturbRows(*protection, batch.gradients, batch.labels, kPosition, out).ok()) << method;
    EXPECT_EQ(protection->is_passthrough(), ValuesOf(out) == ValuesOf(batch.gradients)) << method;
  }
}

TEST(BaselineTest, ClaimsNoBound) {
  const LabelledBatch batch = MakeLabelledBatch(16, 8);
  for (const char* method : {"sparsify { keep: 0.2 }", "discretize { bins: 6 }"}) {
    Matrix out;
    const auto report = PerturbRows(*MakeProtection(method), batch.gradients, batch.labels, kPosition, out);
    EXPECT_TRUE(std::isnan(report->sum_kl)) << method;
    EXPECT_TRUE(std::isnan(report->run_sum_kl)) << method;
    EXPECT_EQ(report->p, 0.25);
  }
}

}  // namespace
}  // namespace splitveil
