// Marvell's noise across dg: orthogonal_noise_ratio.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

#include "common/leakage/bounds.h"
#include "label_party/marvell/marvell_planner.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{1, 2, 0};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ClassMoments Moments(int64_t d, double u, double v, double g, double p) {
  ClassMoments moments;
  moments.u = u;
  moments.v = v;
  moments.dg_squared = g;
  moments.p = p;
  moments.mean_difference.assign(static_cast<size_t>(d), std::sqrt(g / static_cast<double>(d)));
  return moments;
}

double DivergenceLeft(const ClassMoments& m, const MarvellSolution& noise) {
  return SumKl({static_cast<int64_t>(m.mean_difference.size()), m.dg_squared, noise.lambda1_neg + m.u,
                noise.lambda2_neg + m.u, noise.lambda1_pos + m.v, noise.lambda2_pos + m.v});
}

// Calls back with moments of every kind: equal and unlike spreads, either class the wider, rare and common positives.
template <typename Check>
void ForManyMoments(Check check) {
  for (int64_t d : {2, 3, 16}) {
    for (double u : {0.0, 0.23, 1.0, 12.1}) {
      for (double v : {0.0, 0.23, 1.0, 12.1}) {
        for (double g : {0.1, 1.0, 10.0, 100.0}) {
          for (double p : {0.01, 0.25, 0.9}) {
            check(Moments(d, u, v, g, p));
          }
        }
      }
    }
  }
}

TEST(MarvellAcrossTest, AddsNoiseAcrossAlikeInBothClasses) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto paper = PerturbRows(*MakeProtection("marvell { s: 4 }"), batch.gradients, batch.labels, kPosition, out);
  const auto protection = MakeProtection("marvell { s: 4 orthogonal_noise_ratio: 7 }");
  EXPECT_EQ(protection->name(), "marvell(s=4,orthogonal_noise_ratio=7)");
  const auto report = PerturbRows(*protection, batch.gradients, batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_DOUBLE_EQ(report->lambda2_neg, paper->lambda2_neg + paper->g);  // 7 g over 7 directions.
  EXPECT_DOUBLE_EQ(report->lambda2_pos, paper->lambda2_pos + paper->g);
  EXPECT_EQ(report->lambda1_neg, paper->lambda1_neg);
  EXPECT_NEAR(report->power, 11 * paper->g, 1e-9);
  EXPECT_LE(report->sum_kl, paper->sum_kl);
}

TEST(MarvellAcrossTest, NoiseAlongIsNeverLessThanAcross) {
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  const auto report = PerturbRows(*MakeProtection("marvell { s: 0.1 orthogonal_noise_ratio: 700 }"), batch.gradients,
                                  batch.labels, kPosition, out);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_DOUBLE_EQ(std::min(report->lambda1_neg - report->lambda2_neg, report->lambda1_pos - report->lambda2_pos), 0);
  const auto paper = PerturbRows(*MakeProtection("marvell { s: 0.1 }"), batch.gradients, batch.labels, kPosition, out);
  EXPECT_NEAR(report->lambda1_neg - paper->lambda1_neg, report->lambda1_pos - paper->lambda1_pos, 1e-12 * report->g);
}

TEST(MarvellAcrossTest, OneComponentHasNothingAcross) {
  const LabelledBatch batch = MakeLabelledBatch(64, 1);
  Matrix out;
  const auto paper = PerturbRows(*MakeProtection("marvell { s: 4 }"), batch.gradients, batch.labels, kPosition, out);
  const auto report = PerturbRows(*MakeProtection("marvell { s: 4 orthogonal_noise_ratio: 7 }"), batch.gradients,
                                  batch.labels, kPosition, out);
  EXPECT_EQ(report->lambda1_neg, paper->lambda1_neg);
  EXPECT_EQ(report->power, paper->power);
}

// Lifting each class by itself to its noise across dg would set the two further apart along it: a sum_kl of 0.1124.
TEST(MarvellAcrossTest, KeepsTheTargetWhereLiftingOneClassWouldNot) {
  const ClassMoments moments = Moments(2, 12.1, 0.23, 0.865, 0.5);
  MarvellStrength strength;
  strength.sum_kls = {0.11};
  strength.orthogonal_noise_ratio = 0.35;
  const auto noise = SolveMarvellFor(strength, 0, kInfinity, moments);
  ASSERT_TRUE(noise.ok()) << noise.status();
  EXPECT_LE(DivergenceLeft(moments, *noise), 0.11 * (1 + 1e-12));
}

TEST(MarvellAcrossTest, KeepsTheTargetOfTheDivergence) {
  ForManyMoments([](const ClassMoments& moments) {
    for (double orthogonal_noise_ratio : {0.01, 0.35, 4.0, 100.0}) {
      for (double target : {0.001, 0.1, 1.0, 4.0}) {
        MarvellStrength strength;
        strength.sum_kls = {target};
        strength.orthogonal_noise_ratio = orthogonal_noise_ratio;
        const auto noise = SolveMarvellFor(strength, 0, kInfinity, moments);
        ASSERT_TRUE(noise.ok()) << noise.status();
        EXPECT_LE(DivergenceLeft(moments, *noise), target * (1 + 1e-12))
            << "d=" << moments.mean_difference.size() << " u=" << moments.u << " v=" << moments.v
            << " g=" << moments.dg_squared << " p=" << moments.p
            << " orthogonal_noise_ratio=" << orthogonal_noise_ratio;
      }
    }
  });
}

TEST(MarvellAcrossTest, KeepsTheLimitOfABatchBelowTheConfiguredPower) {
  ForManyMoments([](const ClassMoments& moments) {
    for (double orthogonal_noise_ratio : {0.35, 100.0}) {
      MarvellStrength strength;
      strength.s = 0.5;
      strength.orthogonal_noise_ratio = orthogonal_noise_ratio;
      const auto noise = SolveMarvellFor(strength, 0, 0.3, moments);
      ASSERT_TRUE(noise.ok()) << noise.status();
      EXPECT_LE(DivergenceLeft(moments, *noise), 0.3 * (1 + 1e-12));
    }
  });
}

TEST(MarvellAcrossTest, NeverRaisesTheDivergenceOfAPower) {
  ForManyMoments([](const ClassMoments& moments) {
    for (double s : {0.1, 1.0, 25.0}) {
      MarvellStrength strength;
      strength.s = s;
      const auto paper = SolveMarvellFor(strength, 0, kInfinity, moments);
      strength.orthogonal_noise_ratio = 0.35;
      const auto noise = SolveMarvellFor(strength, 0, kInfinity, moments);
      ASSERT_TRUE(paper.ok() && noise.ok());
      EXPECT_LE(DivergenceLeft(moments, *noise), DivergenceLeft(moments, *paper) * (1 + 1e-12));
      EXPECT_GE(noise->lambda1_neg, noise->lambda2_neg * (1 - 1e-15));
      EXPECT_GE(noise->lambda1_pos, noise->lambda2_pos * (1 - 1e-15));
    }
  });
}

}  // namespace
}  // namespace splitveil
