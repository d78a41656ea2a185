// An adversary that remembers, against gradients under real noise, epoch after epoch: what the divergences of the
// releases of an example sum to is what it reaches. 40,000 examples, a quarter of them positive, have a standard error
// of the AUC of at most sqrt(AUC (1 - AUC) / n1) = 0.004 (Birnbaum and Klose 1957). The tolerances are 5 of them, 0.02,
// which a sound implementation exceeds with probability below 1e-6, and 0.01 for classes of unequal variance, for which
// GaussianAucBound is an approximation. Fixed seeds.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/leakage/attack_scorer.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

constexpr int64_t kExamples = 40000;
constexpr int64_t kBatch = 1000;
constexpr int64_t kCols = 16;
constexpr double kTolerance = 0.03;

// One run's remembered AUCs after each epoch.
class CumulativeRun {
 public:
  // A top model that knows the share of positives and nothing else: the class means are 1 apart along a line that turns
  // by `turn` a batch, in radians; a component of a row's direction has the standard deviation 0.1.
  CumulativeRun(const std::string& protection, double turn)
      : turn_(turn), labels_(kExamples), order_(kExamples), scorer_(ExampleSample(kExamples)), line_(kCols) {
    v1::GradientProtection config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(protection, &config));
    std::array<uint8_t, 32> key;
    key.fill(0x17);
    protection_ = std::move(MakeProtection(config, *SecureGaussian::Create(SecretKey(key)))->gradients);
    std::generate(labels_.begin(), labels_.end(), [this] { return random_() % 4 == 0 ? 1 : 0; });
    std::iota(order_.begin(), order_.end(), 0);
    line_[0] = 1;
  }

  void Epoch() {
    std::shuffle(order_.begin(), order_.end(), random_);
    std::vector<float> spectral(kExamples);
    std::vector<float> ratio(kExamples);
    std::vector<float> direction(kExamples);
    for (uint32_t batch = 0; batch < kExamples / kBatch; ++batch) {
      const auto positions = absl::MakeConstSpan(order_).subspan(batch * kBatch, kBatch);
      std::vector<uint8_t> labels;
      for (uint32_t position : positions) {
        labels.push_back(labels_[position]);
      }
      const Matrix directions = DrawDirections(kBatch);
      const Matrix clean = CleanOf(directions, labels);
      const std::vector<float> probabilities(kBatch, kShare);
      Matrix released;
      const auto report =
          protection_->Perturb({directions, probabilities}, {clean, labels}, {epochs_, batch, 0}, released);
      ASSERT_TRUE(report.ok()) << report.status();
      sum_kl_ += report->sum_kl * kBatch / kExamples;
      const auto population = EstimatePopulation(clean, released, labels);
      ASSERT_TRUE(population.ok()) << population.status();
      AttackInput input;
      input.gradients = released;
      input.positions = positions;
      input.population = &*population;
      ASSERT_TRUE(scorer_.Begin(input).ok());
      Keep(*scorer_.Score(v1::CUMULATIVE_SPECTRAL), positions, spectral);
      Keep(*scorer_.Score(v1::CUMULATIVE_LIKELIHOOD_RATIO), positions, ratio);
      Keep(*scorer_.Score(v1::CUMULATIVE_DIRECTION), positions, direction);
    }
    ++epochs_;
    spectral_ = *LeakAuc(spectral, labels_);
    likelihood_ratio_ = *LeakAuc(ratio, labels_);
    direction_ = *LeakAuc(direction, labels_);
  }

  double sum_kl_ = 0;  // Of all releases of an example so far.
  double spectral_ = 0, likelihood_ratio_ = 0, direction_ = 0;

 private:
  static constexpr float kShare = 0.25F;

  Matrix DrawDirections(int64_t rows) {
    for (int64_t k = 0; k + 1 < kCols; k += 2) {
      const double left = line_[k];
      line_[k] = std::cos(turn_) * left - std::sin(turn_) * line_[k + 1];
      line_[k + 1] = std::sin(turn_) * left + std::cos(turn_) * line_[k + 1];
    }
    Matrix directions(rows, kCols);
    for (int64_t j = 0; j < rows; ++j) {
      for (int64_t k = 0; k < kCols; ++k) {
        directions.row(j)[k] = static_cast<float>(-line_[k] + 0.1 * normal_(random_));
      }
    }
    return directions;
  }

  static Matrix CleanOf(const Matrix& directions, const std::vector<uint8_t>& labels) {
    Matrix clean(directions.rows(), kCols);
    for (int64_t j = 0; j < clean.rows(); ++j) {
      for (int64_t k = 0; k < kCols; ++k) {
        clean.row(j)[k] = (kShare - static_cast<float>(labels[static_cast<size_t>(j)])) * directions.row(j)[k];
      }
    }
    return clean;
  }

  static void Keep(const std::vector<float>& scores, absl::Span<const uint32_t> positions, std::vector<float>& all) {
    for (size_t j = 0; j < scores.size(); ++j) {
      all[positions[j]] = scores[j];
    }
  }

  const double turn_;
  std::mt19937_64 random_{41};  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal_;
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> order_;
  AttackScorer scorer_;
  std::vector<double> line_;
  uint32_t epochs_ = 0;
  std::unique_ptr<GradientProtection> protection_;
};

TEST(CumulativeAttacksTest, ReachWhatTheDivergencesOfMarvellSumTo) {
  CumulativeRun run("marvell { s: 4 }", 0.02);
  double first = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    run.Epoch();
    first = epoch == 0 ? run.likelihood_ratio_ : first;
    EXPECT_NEAR(run.likelihood_ratio_, GaussianAucBound(run.sum_kl_), kTolerance) << epoch;
    EXPECT_LE(run.likelihood_ratio_, AucBound(run.sum_kl_) + kTolerance);
    // Without the moments only the line and its sign are known, which the noise itself gives away.
    // In the first epoch the vote on the sign is still open for some batches.
    EXPECT_NEAR(run.spectral_, run.direction_, epoch == 0 ? 0.05 : 0.01) << epoch;
    EXPECT_GT(run.spectral_, run.likelihood_ratio_ - 0.06) << epoch;
  }
  EXPECT_GT(run.likelihood_ratio_, first + 0.15);
}

// Such noise has no line of its own: without the moments its direction is found late and in part.
TEST(CumulativeAttacksTest, ReachWhatTheDivergencesOfIsotropicNoiseSumTo) {
  CumulativeRun run("iso { t: 30 }", 0.001);
  for (int epoch = 0; epoch < 10; ++epoch) {
    run.Epoch();
    EXPECT_NEAR(run.likelihood_ratio_, GaussianAucBound(run.sum_kl_), kTolerance) << epoch;
    EXPECT_LE(run.spectral_, run.likelihood_ratio_ + kTolerance) << epoch;
  }
  EXPECT_GT(run.spectral_, run.likelihood_ratio_ - 0.06);
}

TEST(CumulativeAttacksTest, ReadUnprotectedGradientsAtOnce) {
  CumulativeRun run("none {}", 0.02);
  run.Epoch();
  EXPECT_GT(run.spectral_, 0.999);
  EXPECT_GT(run.likelihood_ratio_, 0.999);
}

}  // namespace
}  // namespace splitveil
