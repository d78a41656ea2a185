#include "label_party/protection/gradient_protection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "label_party/marvell/marvell_solver.h"
#include "label_party/noise/noise_plan.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

const char kMarvell[] = "marvell { s: 4 }";
constexpr NoisePosition kPosition{1, 2, 0};

absl::StatusCode CreateCode(const std::string& text) {
  v1::GradientProtection config;
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  EXPECT_TRUE(parser.ParseFromString(text, &config)) << text;
  return MakeProtection(config, FixedGaussian()).status().code();
}

TEST(CreateProtectionTest, NamesItselfWithItsParameter) {
  EXPECT_EQ(MakeProtection("none {}")->name(), "none");
  EXPECT_EQ(MakeProtection("iso { t: 1.5 }")->name(), "iso(t=1.5)");
  EXPECT_EQ(MakeProtection("iso { ratio: 0.5 }")->name(), "iso(ratio=0.5)");
  EXPECT_EQ(MakeProtection("max_norm {}")->name(), "max_norm");
  EXPECT_EQ(MakeProtection(kMarvell)->name(), "marvell(s=4)");
  EXPECT_EQ(MakeProtection("marvell { sum_kl: 0.25 }")->name(), "marvell(sum_kl=0.25)");
  EXPECT_EQ(MakeProtection("marvell { detection_error: 0.3 }")->name(), "marvell(detection_error=0.3)");
  EXPECT_EQ(MakeProtection("label_dp { epsilon: 0.5 }")->name(), "label_dp(epsilon=0.5)");
  EXPECT_EQ(MakeProtection("sparsify { keep: 0.1 }")->name(), "sparsify(keep=0.1)");
  EXPECT_EQ(MakeProtection("discretize { bins: 12 }")->name(), "discretize(bins=12)");
  EXPECT_EQ(MakeProtection("none {} distance_correlation { weight: 0.1 }")->name(),
            "none+distance_correlation(weight=0.1)");
}

TEST(CreateProtectionTest, FailsWithoutAMethod) { EXPECT_EQ(CreateCode(""), absl::StatusCode::kInvalidArgument); }

TEST(CreateProtectionTest, FailsWithoutAStrength) {
  EXPECT_EQ(CreateCode("marvell {}"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode("iso {}"), absl::StatusCode::kInvalidArgument);
}

TEST(CreateProtectionTest, FailsForAStrengthThatIsNotPositiveAndFinite) {
  for (const char* value : {"0", "-1", "nan", "inf"}) {
    for (const char* field : {"iso { t: ", "iso { ratio: ", "marvell { s: ", "marvell { sum_kl: ",
                              "label_dp { epsilon: ", "sparsify { keep: ", "none {} distance_correlation { weight: "}) {
      EXPECT_EQ(CreateCode(std::string(field) + value + " }"), absl::StatusCode::kInvalidArgument) << field << value;
    }
  }
}

TEST(CreateProtectionTest, FailsForADetectionErrorThatNoNoiseReaches) {
  EXPECT_EQ(CreateCode("marvell { detection_error: 0.5 }"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode("marvell { detection_error: -0.1 }"), absl::StatusCode::kInvalidArgument);
}

TEST(CreateProtectionTest, FailsForSettingsThatMakeNoMethod) {
  for (const char* text : {"label_dp { epsilon: 31 }", "sparsify { keep: 1 }", "discretize { bins: 1 }",
                           "discretize { bins: -3 }", "marvell { run_budget { planned_epochs: 0 } }"}) {
    EXPECT_EQ(CreateCode(text), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CreateProtectionTest, FailsWithoutASourceOfNoise) {
  for (const char* text : {"max_norm {}", "iso { t: 1 }", kMarvell}) {
    EXPECT_EQ(MakeProtection(ProtectionConfig(text), nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(NoProtectionTest, LeavesEveryBitAsItIsAndStatesNoDivergence) {
  const LabelledBatch batch = MakeLabelledBatch(16, 5);
  Matrix out;
  const auto report = PerturbRows(*MakeProtection("none {}"), batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(ValuesOf(out), ValuesOf(batch.gradients));
  EXPECT_EQ(report->method, "none");
  EXPECT_EQ(report->power, 0);
  EXPECT_EQ(report->lambda1_pos, 0);
  EXPECT_TRUE(std::isnan(report->sum_kl));
}

// What holds for every method that adds noise.
class NoisyProtectionTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Whether every row that the report gives noise is changed, and finite: a class to which Marvell's optimum gives
  // none, and the longest row of max_norm, leave as they are.
  static void ExpectRowsChanged(const LabelledBatch& batch, const ProtectionReport& report, const Matrix& out) {
    ASSERT_EQ(out.rows(), batch.gradients.rows());
    ASSERT_EQ(out.cols(), batch.gradients.cols());
    int64_t unchanged = 0;
    for (int64_t j = 0; j < out.rows(); ++j) {
      EXPECT_TRUE(std::isfinite(SquaredNorm(out.row(j))));
      const double noise = batch.labels[j] == 1 ? report.lambda1_pos : report.lambda1_neg;
      unchanged += noise != 0 && out.row(j) == batch.gradients.row(j);
    }
    EXPECT_LE(unchanged, report.method == "max_norm" ? 1 : 0);
    EXPECT_GT(report.power, 0);
  }

  absl::StatusOr<ProtectionReport> Perturb(const LabelledBatch& batch, Matrix& out,
                                           NoisePosition position = kPosition) {
    return PerturbRows(*protection_, batch.gradients, batch.labels, position, out);
  }

  std::unique_ptr<GradientProtection> protection_ = MakeProtection(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Methods, NoisyProtectionTest,
                         ::testing::Values("iso { t: 1 }", "max_norm {}", "marvell { s: 4 }",
                                           "marvell { sum_kl: 0.25 }", "marvell { detection_error: 0.4 }",
                                           "marvell { s: 4 orthogonal_noise_ratio: 2 }",
                                           "marvell { run_budget { planned_epochs: 4 noise_growth_per_epoch: 1.5 } }"));

TEST_P(NoisyProtectionTest, GivesTheSameBytesAtTheSamePosition) {
  const LabelledBatch batch = MakeLabelledBatch(70, 9);
  Matrix first;
  Matrix second;
  ASSERT_TRUE(Perturb(batch, first).ok());
  ASSERT_TRUE(Perturb(MakeLabelledBatch(8, 9, 3), second, {0, 9, 0}).ok());  // A batch in between.
  ASSERT_TRUE(Perturb(batch, second).ok());
  EXPECT_EQ(ValuesOf(first), ValuesOf(second));
  EXPECT_NE(ValuesOf(first), ValuesOf(batch.gradients));
}

TEST_P(NoisyProtectionTest, GivesTheSameBytesInAnotherProcessUnderTheSameKey) {
  const LabelledBatch batch = MakeLabelledBatch(70, 9);
  Matrix first;
  Matrix second;
  ASSERT_TRUE(Perturb(batch, first).ok());
  ASSERT_TRUE(PerturbRows(*MakeProtection(GetParam()), batch.gradients, batch.labels, kPosition, second).ok());
  EXPECT_EQ(ValuesOf(first), ValuesOf(second));
}

TEST_P(NoisyProtectionTest, GivesOtherBytesAtOtherPositionsAndUnderOtherKeys) {
  const LabelledBatch batch = MakeLabelledBatch(8, 6);
  Matrix here;
  Matrix there;
  ASSERT_TRUE(Perturb(batch, here).ok());
  for (const NoisePosition other : {NoisePosition{1, 3, 0}, NoisePosition{2, 2, 0}}) {
    ASSERT_TRUE(Perturb(batch, there, other).ok());
    EXPECT_NE(ValuesOf(here), ValuesOf(there));
  }
  ASSERT_TRUE(PerturbRows(*MakeProtection(GetParam(), 8), batch.gradients, batch.labels, kPosition, there).ok());
  EXPECT_NE(ValuesOf(here), ValuesOf(there));
}

TEST_P(NoisyProtectionTest, ReplacesAnOutputOfAnotherShape) {
  const LabelledBatch batch = MakeLabelledBatch(8, 6);
  Matrix fresh;
  Matrix used(3, 100);
  ASSERT_TRUE(Perturb(batch, fresh).ok());
  ASSERT_TRUE(Perturb(batch, used).ok());
  EXPECT_EQ(ValuesOf(fresh), ValuesOf(used));
}

TEST_P(NoisyProtectionTest, DoesNotFallBackForAnOrdinaryBatch) {
  Matrix out;
  const auto report = Perturb(MakeLabelledBatch(32, 8), out);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->method, ::testing::Not(HasSubstr("fallback")));
  EXPECT_GT(report->power, 0);
}

TEST_P(NoisyProtectionTest, PerturbsABatchOfOneClassBeforeAnyOther) {
  for (uint8_t label : {0, 1}) {
    LabelledBatch batch = MakeLabelledBatch(16, 8);
    batch.labels.assign(16, label);
    Matrix out;
    const auto report = PerturbRows(*MakeProtection(GetParam()), batch.gradients, batch.labels, kPosition, out);
    ASSERT_TRUE(report.ok()) << report.status();
    ExpectRowsChanged(batch, *report, out);
  }
}

TEST_P(NoisyProtectionTest, PerturbsABatchOfOneRow) {
  LabelledBatch batch = MakeLabelledBatch(1, 8);
  Matrix out;
  const auto report = Perturb(batch, out);
  ASSERT_TRUE(report.ok());
  ExpectRowsChanged(batch, *report, out);
}

TEST_P(NoisyProtectionTest, PerturbsFiftyBatchesWithoutAPositive) {
  Matrix out;
  ASSERT_TRUE(Perturb(MakeLabelledBatch(32, 8), out).ok());
  for (uint32_t step = 0; step < 50; ++step) {
    LabelledBatch batch = MakeLabelledBatch(16, 8, 1, step + 2);
    batch.labels.assign(16, 0);
    const auto report = Perturb(batch, out, {0, step, 0});
    ASSERT_TRUE(report.ok());
    ExpectRowsChanged(batch, *report, out);
  }
}

// One class, the other, equal gradients, zeros, a single row: whatever tells nothing of the classes, before the first
// batch that does and after it, nothing leaves in the clear and nothing is skipped.
TEST_P(NoisyProtectionTest, PerturbsSixtyBatchesThatTellNothingOfTheClasses) {
  for (const bool after_an_ordinary_one : {false, true}) {
    const auto protection = MakeProtection(GetParam());
    Matrix out;
    if (after_an_ordinary_one) {
      const LabelledBatch ordinary = MakeLabelledBatch(32, 8);
      ASSERT_TRUE(PerturbRows(*protection, ordinary.gradients, ordinary.labels, {9, 9, 0}, out).ok());
    }
    for (uint32_t step = 0; step < 60; ++step) {
      LabelledBatch batch = MakeLabelledBatch(step % 5 == 4 ? 1 : 16, 8, 1, step + 2);
      if (step % 5 < 2) {
        batch.labels.assign(16, static_cast<uint8_t>(step % 5));
      } else if (step % 5 < 4) {
        std::fill_n(batch.gradients.data(), batch.gradients.size(), step % 5 == 2 ? 0.2f : 0.0f);
      }
      const auto report = PerturbRows(*protection, batch.gradients, batch.labels, {step / 20, step % 20, 0}, out);
      ASSERT_TRUE(report.ok()) << report.status();
      ExpectRowsChanged(batch, *report, out);
    }
  }
}

TEST_P(NoisyProtectionTest, PerturbsAFallbackBatchAlikeWhenItIsRepeated) {
  Matrix first;
  Matrix second;
  ASSERT_TRUE(Perturb(MakeLabelledBatch(32, 8), first, {0, 0, 0}).ok());
  LabelledBatch batch = MakeLabelledBatch(16, 8, 5);
  batch.labels.assign(16, 1);
  ASSERT_TRUE(Perturb(batch, first).ok());
  ASSERT_TRUE(Perturb(batch, second).ok());
  EXPECT_EQ(ValuesOf(first), ValuesOf(second));
}

TEST_P(NoisyProtectionTest, PerturbsABatchOfZeros) {
  const Matrix zeros(4, 6);
  Matrix out;
  const auto report = PerturbRows(*protection_, zeros, std::vector<uint8_t>{0, 1, 0, 1}, kPosition, out);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->method, HasSubstr("+fallback"));
  ExpectRowsChanged({Matrix(zeros), {0, 1, 0, 1}}, *report, out);
}

TEST_P(NoisyProtectionTest, PerturbsABatchWhoseClassesHaveEqualGradients) {
  Matrix gradients(4, 6);
  for (int64_t j = 0; j < 4; ++j) {
    for (float& component : gradients.row(j)) {
      component = 0.25f;
    }
  }
  Matrix out;
  const auto report = PerturbRows(*protection_, gradients, std::vector<uint8_t>{0, 1, 0, 1}, kPosition, out);
  ASSERT_TRUE(report.ok());
  ExpectRowsChanged({Matrix(gradients), {0, 1, 0, 1}}, *report, out);
}

TEST_P(NoisyProtectionTest, RefusesAGradientThatIsNotFiniteAndLeavesNothing) {
  LabelledBatch batch = MakeLabelledBatch(8, 6);
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    batch.gradients.row(5)[3] = bad;
    Matrix out(8, 6);
    EXPECT_EQ(Perturb(batch, out).status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(out.size(), 0);
  }
}

TEST_P(NoisyProtectionTest, RefusesAResultThatIsNotFiniteAndLeavesNothing) {
  LabelledBatch batch = MakeLabelledBatch(256, 6);
  for (int64_t j = 0; j < 256; ++j) {
    // max_norm lifts every row to the longest, so some component overflows there, too.
    batch.gradients.row(j)[0] = std::numeric_limits<float>::max() * (batch.labels[j] == 1 ? 1.0f : -0.5f);
  }
  Matrix out(256, 6);
  EXPECT_EQ(Perturb(batch, out).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(out.size(), 0);
}

TEST_P(NoisyProtectionTest, RefusesLabelsThatDoNotFit) {
  const LabelledBatch batch = MakeLabelledBatch(4, 6);
  Matrix out;
  EXPECT_EQ(PerturbRows(*protection_, batch.gradients, std::vector<uint8_t>{0, 1}, kPosition, out).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      PerturbRows(*protection_, batch.gradients, std::vector<uint8_t>{0, 1, 7, 0}, kPosition, out).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_P(NoisyProtectionTest, RefusesAnEmptyBatch) {
  Matrix out;
  EXPECT_EQ(PerturbRows(*protection_, Matrix(), {}, kPosition, out).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(IsoProtectionTest, ReportsItsPowerAndDivergence) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto report = PerturbRows(*MakeProtection("iso { t: 2 }"), batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok());
  const ClassMoments moments = ExpectedMomentsOf(batch.gradients, batch.labels);
  EXPECT_NEAR(report->power, 2 * moments.max_squared_norm, 1e-12);
  EXPECT_NEAR(report->lambda2_pos, 2 * moments.max_squared_norm / 8, 1e-12);
  EXPECT_TRUE(std::isfinite(report->sum_kl));
}

TEST(IsoProtectionTest, ARatioIsTheSquareRootOfAPower) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix by_ratio;
  Matrix by_power;
  const auto report =
      PerturbRows(*MakeProtection("iso { ratio: 1.5 }"), batch.gradients, batch.labels, kPosition, by_ratio);
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(PerturbRows(*MakeProtection("iso { t: 2.25 }"), batch.gradients, batch.labels, kPosition, by_power).ok());
  EXPECT_EQ(ValuesOf(by_ratio), ValuesOf(by_power));
  const ClassMoments moments = ExpectedMomentsOf(batch.gradients, batch.labels);
  EXPECT_NEAR(std::sqrt(report->lambda1_neg), 1.5 * std::sqrt(moments.max_squared_norm / 8), 1e-12);
}

TEST(IsoProtectionTest, RefusesARatioThatADoubleCannotSquare) {
  for (const char* ratio : {"1e200", "1e-200"}) {
    EXPECT_EQ(CreateCode(std::string("iso { ratio: ") + ratio + " }"), absl::StatusCode::kInvalidArgument) << ratio;
  }
}

TEST(MaxNormProtectionTest, AddsNoiseAlongEachGradientOnly) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  ASSERT_TRUE(PerturbRows(*MakeProtection("max_norm {}"), batch.gradients, batch.labels, kPosition, out).ok());
  int64_t unchanged = 0;
  for (int64_t j = 0; j < 64; ++j) {
    const absl::Span<const float> row = batch.gradients.row(j);
    const double squared_cosine =
        std::pow(InnerProduct(row, out.row(j)), 2) / SquaredNorm(row) / SquaredNorm(out.row(j));
    EXPECT_NEAR(squared_cosine, 1, 1e-4);
    unchanged += out.row(j) == row;
  }
  EXPECT_LE(unchanged, 1);  // One that is as long as any label could make one.
}

TEST(MaxNormProtectionTest, GivesARowOfZerosIsotropicNoise) {
  LabelledBatch batch = MakeLabelledBatch(64, 8);
  for (float& component : batch.gradients.row(3)) {
    component = 0;
  }
  Matrix out;
  ASSERT_TRUE(PerturbRows(*MakeProtection("max_norm {}"), batch.gradients, batch.labels, kPosition, out).ok());
  EXPECT_GT(SquaredNorm(out.row(3)), 0);
}

TEST(MaxNormProtectionTest, LiftsRowsTooSmallForTheSquareOfAFloat) {
  LabelledBatch batch = MakeLabelledBatch(64, 8);
  for (float& component : batch.gradients.row(3)) {
    component = 1e-30f;
  }
  Matrix out;
  ASSERT_TRUE(PerturbRows(*MakeProtection("max_norm {}"), batch.gradients, batch.labels, kPosition, out).ok());
  EXPECT_GT(SquaredNorm(out.row(3)), 1e-8);
}

TEST(MaxNormProtectionTest, ClaimsNoBound) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto report = PerturbRows(*MakeProtection("max_norm {}"), batch.gradients, batch.labels, kPosition, out);
  EXPECT_TRUE(std::isnan(report->sum_kl));
  EXPECT_TRUE(std::isnan(report->lambda1_neg));
}

TEST(MarvellProtectionTest, ReportsTheOptimumForTheBatchsMoments) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto report = PerturbRows(*MakeProtection(kMarvell), batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok());
  const ClassMoments m = ExpectedMomentsOf(batch.gradients, batch.labels);
  const MarvellSolution s = *SolveMarvell({8, m.u, m.v, m.dg_squared, m.p, 4 * m.dg_squared});
  EXPECT_EQ(report->method, "marvell");
  EXPECT_EQ(report->u, m.u);
  EXPECT_EQ(report->v, m.v);
  EXPECT_EQ(report->g, m.dg_squared);
  EXPECT_EQ(report->p, 0.25);
  EXPECT_NEAR(report->power, 4 * m.dg_squared, 1e-12);
  EXPECT_EQ(report->lambda1_neg, s.lambda1_neg);
  EXPECT_EQ(report->lambda2_neg, s.lambda2_neg);
  EXPECT_EQ(report->lambda1_pos, s.lambda1_pos);
  EXPECT_EQ(report->lambda2_pos, s.lambda2_pos);
  EXPECT_NEAR(report->sum_kl, s.sum_kl, 1e-12);
}

TEST(MarvellProtectionTest, KeepsTheTargetOfTheDivergence) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto direct =
      PerturbRows(*MakeProtection("marvell { sum_kl: 0.25 }"), batch.gradients, batch.labels, kPosition, out);
  EXPECT_NEAR(direct->sum_kl, 0.25, 1e-8);
  const auto error =
      PerturbRows(*MakeProtection("marvell { detection_error: 0.4 }"), batch.gradients, batch.labels, kPosition, out);
  EXPECT_NEAR(error->sum_kl, 0.16, 1e-8);
}

// Classes that overlap so far that the target is met without noise: still not in the clear.
TEST(MarvellProtectionTest, PerturbsABatchThatMeetsItsTargetByItself) {
  LabelledBatch batch = MakeLabelledBatch(64, 8);
  for (int64_t j = 0; j < 64; ++j) {
    batch.labels[j] = j % 2;
    for (int64_t k = 0; k < 8; ++k) {
      batch.gradients.row(j)[k] = static_cast<float>((j / 2 + k) % 2 == 0 ? 1 : -1) + (j % 2 == 1 ? 1e-3f : 0);
    }
  }
  Matrix out;
  const auto report =
      PerturbRows(*MakeProtection("marvell { sum_kl: 1 }"), batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->method, "marvell+fallback");
  EXPECT_NE(ValuesOf(out), ValuesOf(batch.gradients));
}

}  // namespace
}  // namespace splitveil
