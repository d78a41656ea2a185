// Gaussian classes through the real protections: the likelihood-ratio adversary's measured AUC, by the moments that the
// audit estimates of each batch, equals the one computed from the noise's and the population's variances, and stays
// below Theorem 1. The tolerance is six standard errors, Var(AUC) <= AUC (1 - AUC) / min(n0, n1) (Birnbaum
// and Klose 1957), so a sound implementation fails one of the comparisons with probability below 1e-7. Fixed seeds.
#include <array>
#include <cmath>
#include <cstdint>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/population.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "label_party/protection/protection_factory.h"
#include "tests/statistical/leakage/likelihood_ratio.h"
#include "tests/unit/label_party/protection/head_behind.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 4000;
constexpr int64_t kCols = 8;
constexpr int kBatches = 40;
constexpr double kMeanDifference = 0.5;  // On the first axis.

struct Setting {
  const char* protection;
  double u, v;
  int64_t rows_a_positive = 2;  // Every such row is positive: p = 1 / rows_a_positive.
};

std::unique_ptr<GradientProtection> Make(const std::string& text) {
  v1::GradientProtection config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  std::array<uint8_t, 32> key;
  key.fill(0x42);
  return std::move(MakeProtection(config, *SecureGaussian::Create(SecretKey(key)))->gradients);
}

struct Measured {
  double auc = 0;        // Of the likelihood ratio, mean over batches.
  double tolerance = 0;  // Six standard errors.
  double computed = 0;   // LikelihoodRatioAuc.
  double bound = 0;      // Theorem 1.
};

// `swap_noise`: the noise of a negative goes to a positive and the other way round, a mistake to be caught.
Measured Measure(const Setting& setting, bool swap_noise = false) {
  std::mt19937_64 random(17);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal;
  const auto protection = Make(setting.protection);
  Matrix gradients(kRows, kCols);
  Matrix out;
  std::vector<uint8_t> labels(kRows);
  Measured measured;
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    for (int64_t j = 0; j < kRows; ++j) {
      labels[j] = j % setting.rows_a_positive == 1;
      const double stddev = std::sqrt(labels[j] == 1 ? setting.v : setting.u);
      for (int64_t k = 0; k < kCols; ++k) {
        gradients.row(j)[k] =
            static_cast<float>((k == 0 && labels[j] == 1 ? kMeanDifference : 0) + stddev * normal(random));
      }
    }
    const ProtectionReport report = *PerturbRows(*protection, gradients, labels, {0, batch, 0}, out);
    for (int64_t j = 0; swap_noise && j < kRows; j += 2) {
      for (int64_t k = 0; k < kCols; ++k) {
        const float noise = out.row(j)[k] - gradients.row(j)[k];
        out.row(j)[k] = gradients.row(j)[k] + (out.row(j + 1)[k] - gradients.row(j + 1)[k]);
        out.row(j + 1)[k] = gradients.row(j + 1)[k] + noise;
      }
    }
    // Batch moments differ from the population's by sampling; the noise is what it is, the classes are the
    // population's.
    const GaussianClasses classes{kCols,
                                  kMeanDifference * kMeanDifference,
                                  report.lambda1_neg + setting.u,
                                  report.lambda2_neg + setting.u,
                                  report.lambda1_pos + setting.v,
                                  report.lambda2_pos + setting.v};
    const Population population = *EstimatePopulation(gradients, out, labels);
    const std::vector<float> scores = LikelihoodRatioScores(out, population);
    measured.auc += *LeakAuc(scores, labels) / kBatches;
    measured.computed += LikelihoodRatioAuc(classes) / kBatches;
    measured.bound += AucBound(SumKl(classes)) / kBatches;
  }
  const auto positives = kBatches * kRows / setting.rows_a_positive;
  measured.tolerance = 6 * std::sqrt(measured.auc * (1 - measured.auc) / positives);
  return measured;
}

class LikelihoodRatioTest : public ::testing::TestWithParam<Setting> {};

INSTANTIATE_TEST_SUITE_P(
    Protections, LikelihoodRatioTest,
    ::testing::Values(Setting{"none {}", 0.09, 0.12}, Setting{"iso { t: 0.5 }", 0.04, 0.09},
                      Setting{"iso { t: 4 }", 0.04, 0.09}, Setting{"marvell { s: 0.25 }", 0.04, 0.09},
                      Setting{"marvell { s: 1 }", 0.09, 0.04}, Setting{"marvell { s: 4 }", 0.04, 0.09},
                      Setting{"marvell { s: 4 }", 0.01, 0.01}, Setting{"marvell { s: 25 }", 0.04, 0.09},
                      Setting{"marvell { sum_kl: 0.5 }", 0.04, 0.09},
                      Setting{"marvell { detection_error: 0.4 }", 0.09, 0.04}, Setting{"iso { t: 1 }", 0.04, 0.04, 4},
                      Setting{"marvell { s: 1 }", 0.04, 0.09, 4}, Setting{"marvell { s: 4 }", 0.09, 0.04, 4},
                      Setting{"marvell { s: 4 }", 0.04, 0.09, 16}, Setting{"marvell { sum_kl: 0.25 }", 0.09, 0.04, 4},
                      Setting{"marvell { detection_error: 0.3 }", 0.04, 0.09, 16}));

TEST_P(LikelihoodRatioTest, MeasuredAucIsTheComputedOneAndBelowTheoremOne) {
  const Measured m = Measure(GetParam());
  EXPECT_NEAR(m.auc, m.computed, m.tolerance);
  EXPECT_LE(m.auc, m.bound);
}

TEST(LikelihoodRatioCatchesTest, NoiseOfTheOtherClass) {
  const Measured m = Measure({"marvell { s: 4 }", 0.09, 0.04, 4}, true);
  EXPECT_GT(std::abs(m.auc - m.computed), m.tolerance);
}

TEST(LikelihoodRatioCatchesTest, ProtectionConfiguredButNotApplied) {
  EXPECT_GT(Measure({"none {}", 0.01, 0.01}).auc, Measure({"marvell { s: 4 }", 0.01, 0.01}).bound);
}

// In equal classes nothing leaks. Scored by its cosine with itself the hint always wins; left out, the AUC is 1/2.
TEST(HintRowTest, LiftsTheAucUnlessItIsLeftOut) {
  constexpr int64_t kSmallBatch = 16;
  constexpr int kSteps = 4000;
  std::mt19937_64 random(23);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  double scored = 0;
  double left_out = 0;
  for (int step = 0; step < kSteps; ++step) {
    Matrix gradients(kSmallBatch, kCols);
    std::vector<uint8_t> labels(kSmallBatch);
    for (int64_t j = 0; j < kSmallBatch; ++j) {
      labels[j] = j < 4 ? 1 : 0;
      for (float& component : gradients.row(j)) {
        component = normal(random);
      }
    }
    const std::vector<float> scores = CosineScores(gradients, gradients.row(0));
    scored += *LeakAuc(scores, labels) / kSteps;
    left_out += *LeakAuc(scores, labels, {0}) / kSteps;
  }
  // Variance of a Mann-Whitney AUC without leak: (n0 + n1 + 1) / (12 n0 n1).
  const double tolerance = 6 * std::sqrt((12 + 3 + 1) / (12.0 * 12 * 3) / kSteps);
  EXPECT_NEAR(left_out, 0.5, tolerance);
  EXPECT_GT(scored, 0.6);
}

}  // namespace
}  // namespace splitveil
