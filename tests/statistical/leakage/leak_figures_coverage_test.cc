// How often the intervals of MeasureLeak hold the truth, which normal scores have in closed form. 2000 samples a
// setting: intervals that hold with 95% miss the lower limit below, 4.5 standard deviations down, with probability
// under 1e-5, in any of the 15 comparisons under 2e-4. Fixed seeds.
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/leak_figures.h"

namespace splitveil {
namespace {

constexpr int kSamples = 2000;
const double kLeastCoverage = 0.95 - 4.5 * std::sqrt(0.95 * 0.05 / kSamples);

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

struct Setting {
  int negatives, positives;
  double shift;  // Of the positives' scores, in standard deviations.
};

class CoverageTest : public ::testing::TestWithParam<Setting> {};

INSTANTIATE_TEST_SUITE_P(Settings, CoverageTest,
                         ::testing::Values(Setting{400, 100, 0}, Setting{400, 100, 1}, Setting{300, 60, 2},
                                           Setting{5000, 200, 0.5}, Setting{60, 400, 1.5}));

TEST_P(CoverageTest, OfTheIntervalsIsAtLeast95Percent) {
  const Setting& setting = GetParam();
  std::mt19937_64 random(29);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal;
  constexpr double kQuantile99 = 2.3263478740408408;
  constexpr double kQuantile999 = 3.0902323061678132;
  const double auc = Phi(setting.shift / std::sqrt(2.0));
  const double at_1 = Phi(setting.shift - kQuantile99);
  const double at_01 = Phi(setting.shift - kQuantile999);
  int auc_held = 0;
  int at_1_held = 0;
  int at_01_held = 0;
  std::vector<float> scores(setting.negatives + setting.positives);
  std::vector<uint8_t> labels(scores.size());
  for (int sample = 0; sample < kSamples; ++sample) {
    for (size_t i = 0; i < scores.size(); ++i) {
      labels[i] = i < static_cast<size_t>(setting.positives) ? 1 : 0;
      scores[i] = static_cast<float>(normal(random) + setting.shift * labels[i]);
    }
    const auto figures = MeasureLeak(scores, labels);
    ASSERT_TRUE(figures.ok()) << figures.status();
    const auto held = [](const Estimate& estimate, double truth) {
      return estimate.low <= truth && truth <= estimate.high ? 1 : 0;
    };
    auc_held += held(figures->auc, auc);
    at_1_held += held(figures->tpr_at_1_percent_fpr, at_1);
    at_01_held += held(figures->tpr_at_01_percent_fpr, at_01);
    EXPECT_LE(figures->tpr_at_1_percent_fpr.low, figures->tpr_at_1_percent_fpr.value);
    EXPECT_GE(figures->tpr_at_1_percent_fpr.high, figures->tpr_at_1_percent_fpr.value);
  }
  EXPECT_GE(auc_held, kLeastCoverage * kSamples);
  EXPECT_LE(auc_held, 0.975 * kSamples);  // No wider than it need be.
  EXPECT_GE(at_1_held, kLeastCoverage * kSamples);
  EXPECT_GE(at_01_held, kLeastCoverage * kSamples);
}

}  // namespace
}  // namespace splitveil
