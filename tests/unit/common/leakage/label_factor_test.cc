#include "common/leakage/label_factor.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/gradient_views.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 1000;
constexpr int64_t kUnits = 10;
constexpr int kBatches = 12;

// Rows whose label, one in four positive, moves component 1 by `gap` standard deviations; noise of standard deviation 1
// there, `along` in component 0.
struct Stream {
  explicit Stream(double gap, double along) : gap(gap), along(along) {}

  Matrix Next() {
    Matrix rows(kRows, kUnits);
    for (int64_t j = 0; j < kRows; ++j) {
      labels[j] = random() % 4 == 0;
      for (int64_t k = 0; k < kUnits; ++k) {
        rows.row(j)[k] = static_cast<float>((k == 0 ? along : k == 1 ? 1 : 0.3) * normal(random));
      }
      rows.row(j)[1] += static_cast<float>((labels[j] - 0.25) * gap);
    }
    return rows;
  }

  double gap, along;
  std::mt19937_64 random{11};
  std::normal_distribution<double> normal;
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);
};

struct Reached {
  double main = 0, factor = 0;  // AUC on the last batch.
};

Reached Attack(Stream stream) {
  GradientSplitter splitter;
  LabelFactor factor;
  Reached reached;
  for (int batch = 0; batch < kBatches; ++batch) {
    const GradientViews views = splitter.Split(stream.Next());
    const std::vector<double> log_ratios = factor.Take(views);
    reached.main = *LeakAuc(views.main, stream.labels);
    reached.factor = *LeakAuc(std::vector<float>(log_ratios.begin(), log_ratios.end()), stream.labels);
  }
  return reached;
}

// The best on two Gaussians `gap` apart is Phi(gap / sqrt 2); the standard error of an AUC over 250 positives is below
// 0.02, and the fit costs little.
double Best(double gap) { return 0.5 * std::erfc(-gap / 2); }

TEST(LabelFactorTest, ReachesTheClosedFormWhereTheMainDirectionIsTheLabels) {
  const Reached reached = Attack(Stream(3, 0.3));
  EXPECT_NEAR(reached.factor, Best(3), 0.03);
}

TEST(LabelFactorTest, TellsNoiseOfAnotherDirectionFromTheLabel) {
  const Reached reached = Attack(Stream(4, 8));
  EXPECT_LT(std::abs(reached.main - 0.5), 0.1);
  EXPECT_NEAR(reached.factor, Best(4), 0.03);
}

TEST(LabelFactorTest, FindsNothingInNoise) {
  const Reached reached = Attack(Stream(0, 2));
  EXPECT_NEAR(reached.factor, 0.5, 0.1);  // Five standard errors.
}

TEST(LabelFactorTest, ABatchThatTellsNothingScoresNothing) {
  LabelFactor factor;
  GradientSplitter splitter;
  EXPECT_EQ(factor.Take(splitter.Split(Matrix(3, 2))), std::vector<double>(3, 0));
}

}  // namespace
}  // namespace splitveil
