#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/leakage/conditional_likelihood.h"

namespace splitveil {
namespace {

constexpr int64_t kCols = 4;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Rows of random heads; p and the length of v tell of the label.
struct Releases {
  explicit Releases(int64_t rows) : released(rows, kCols), directions(rows, kCols) {
    for (int64_t j = 0; j < rows; ++j) {
      labels.push_back(j % 3 == 0 ? 1 : 0);
      probabilities.push_back(labels.back() == 1 ? 0.8F : 0.3F);
      for (float& component : directions.row(j)) {
        component = static_cast<float>(normal(random) * (1 + labels.back()));
      }
    }
  }

  // (p - target) v, and noise of the class's variances: `along` on the first axis.
  void Release(const std::vector<double>& targets, const NoiseVariances& negative, const NoiseVariances& positive) {
    for (int64_t j = 0; j < released.rows(); ++j) {
      const NoiseVariances& noise = labels[static_cast<size_t>(j)] == 1 ? positive : negative;
      for (int64_t i = 0; i < kCols; ++i) {
        const double variance = i == 0 ? noise.along : noise.across;
        const double added = std::isnan(variance) ? 0 : std::sqrt(variance) * normal(random);
        const auto row = static_cast<size_t>(j);
        released.row(j)[i] =
            static_cast<float>((probabilities[row] - targets[row]) * std::as_const(directions).row(j)[i] + added);
      }
    }
    head.noise_negative = negative;
    head.noise_positive = positive;
  }

  std::vector<LabelResidual> Residuals(double label_mu) {
    head.label_directions = directions;
    head.probabilities = probabilities;
    head.noise_direction = line;
    return LabelResiduals(released, head, label_mu);
  }

  std::mt19937_64 random{5};
  std::normal_distribution<double> normal;
  Matrix released, directions;
  std::vector<float> probabilities;
  std::vector<uint8_t> labels;
  const std::vector<float> line = {1, 0, 0, 0};
  ReleasingHead head;
};

std::vector<double> AsTargets(const std::vector<uint8_t>& labels) { return {labels.begin(), labels.end()}; }

// Mean and variance over `rows` values, each at six standard errors.
void ExpectStandardNormal(double sum, double squares, double rows) {
  EXPECT_NEAR(sum / rows, 0, 6 / std::sqrt(rows));
  EXPECT_NEAR(squares / rows, 1, 6 * std::sqrt(2 / rows));
}

// Of noise that is not alike in all directions; a positive's, shifted by what is said.
TEST(LabelResidualTest, IsStandardNormalWhateverTheFeaturesAre) {
  Releases releases(60'000);
  releases.Release(AsTargets(releases.labels), {4, 1}, {4, 1});
  const std::vector<LabelResidual> residuals = releases.Residuals(0);
  double sum[2] = {}, squares[2] = {}, rows[2] = {};
  for (size_t j = 0; j < residuals.size(); ++j) {
    const uint8_t label = releases.labels[j];
    const double noise = residuals[j].low - label * residuals[j].shift;
    sum[label] += noise;
    squares[label] += noise * noise;
    ++rows[label];
  }
  for (int label : {0, 1}) {
    ExpectStandardNormal(sum[label], squares[label], rows[label]);
  }
}

// sqrt(v' S^-1 v), by hand.
TEST(LabelResidualTest, TheShiftIsTheDistanceOfTheTwoLabels) {
  Releases releases(2);
  for (int64_t i = 0; i < kCols; ++i) {
    releases.directions.row(0)[i] = static_cast<float>(i + 1);
  }
  releases.Release(AsTargets(releases.labels), {4, 0.25}, {9, 9});
  EXPECT_NEAR(releases.Residuals(0)[0].shift, std::sqrt(1.0 / 4 + (4 + 9 + 16) / 0.25), 1e-6);
}

TEST(LabelResidualTest, OfNoisedLabelsIsTheLabelItself) {
  for (const bool posterior : {false, true}) {
    Releases releases(300);
    constexpr double kMu = 0.8;
    std::vector<double> noised, targets;
    for (size_t j = 0; j < releases.labels.size(); ++j) {
      noised.push_back(releases.labels[j] + releases.normal(releases.random) / kMu);
      const double p = releases.probabilities[j];
      targets.push_back(posterior ? 1 / (1 + (1 - p) / p * std::exp(-(noised.back() - 0.5) * kMu * kMu))
                                  : noised.back());
    }
    releases.Release(targets, {kNan, kNan}, {kNan, kNan});
    releases.head.releases_posterior = posterior;
    const std::vector<LabelResidual> residuals = releases.Residuals(kMu);
    for (size_t j = 0; j < residuals.size(); ++j) {
      EXPECT_EQ(residuals[j].shift, kMu);
      EXPECT_LE(residuals[j].low, kMu * noised[j]);
      EXPECT_GE(residuals[j].high, kMu * noised[j]);
      EXPECT_LT(residuals[j].high - residuals[j].low, 1e-4);
    }
  }
}

TEST(LabelResidualTest, SaysNothingWhereNothingCanBeTakenOut) {
  Releases releases(6);
  releases.Release(AsTargets(releases.labels), {kNan, kNan}, {kNan, kNan});
  EXPECT_FALSE(releases.Residuals(0)[0].is_known());  // No noise is stated.
  EXPECT_TRUE(releases.Residuals(1)[0].is_known());
  for (float& component : releases.directions.row(1)) {
    component = 0;
  }
  EXPECT_FALSE(releases.Residuals(1)[1].is_known());  // The label moves nothing.
  releases.head.clip_norm = 1;
  EXPECT_FALSE(releases.Residuals(1)[0].is_known());
  releases.head.clip_norm = 0;
  releases.head.releases_posterior = true;
  releases.probabilities[0] = 0.9999F;
  EXPECT_FALSE(releases.Residuals(1)[0].is_known());
  EXPECT_TRUE(releases.Residuals(1)[2].is_known());
}

// Noise that covers one line only leaves the rest in the open: the shift says so, and stays finite.
TEST(LabelResidualTest, NoNoiseAcrossMakesAShiftThatIsFinite) {
  Releases releases(30);
  releases.Release(AsTargets(releases.labels), {4, 0}, {4, 0});
  for (size_t j = 0; j < 30; ++j) {
    const LabelResidual residual = releases.Residuals(0)[j];
    EXPECT_TRUE(std::isfinite(residual.low) && std::isfinite(residual.high));
    EXPECT_GT(residual.shift, 1e3);
    EXPECT_EQ(residual.low > residual.shift / 2, releases.labels[j] == 1);
  }
}

}  // namespace
}  // namespace splitveil
