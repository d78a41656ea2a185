#include "common/leakage/surrogate_head.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/gradient_views.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 500;
constexpr int64_t kWidth = 12;
constexpr int kBatches = 60;
constexpr int kTested = 20;  // Of them, the last.

// Examples whose label direction is planted: v(z) = e_0 + B z with a fixed B, zero in the first row; a quarter of the
// labels are positive, of no feature, and p = 0.25.
class PlantedHead {
 public:
  PlantedHead() : turn_(kWidth, kWidth) {
    for (int64_t i = kWidth; i < turn_.size(); ++i) {
      turn_.data()[i] = 0.1f * static_cast<float>(normal_(random_));
    }
  }

  void Next() {
    for (int64_t j = 0; j < kRows; ++j) {
      labels[j] = random_() % 4 == 0;
      for (int64_t k = 0; k < kWidth; ++k) {
        activations.row(j)[k] = static_cast<float>(normal_(random_));
      }
      for (int64_t k = 0; k < kWidth; ++k) {
        double v = k == 0 ? 1 : 0;
        for (int64_t i = 0; i < kWidth; ++i) {
          v += turn_.row(k)[i] * activations.row(j)[i];
        }
        directions.row(j)[k] = static_cast<float>(v);
      }
    }
  }
  double Noise() { return normal_(random_); }

  Matrix activations{kRows, kWidth}, directions{kRows, kWidth};
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);

 private:
  std::mt19937_64 random_{5};  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal_;
  Matrix turn_;
};

struct Reached {
  double log_ratio = 0, matching = 0;  // Pooled AUC of the last kTested batches.
};

// `release`(head, row, gradient): adds to `gradient`, 0 at first, what leaves of the row.
Reached Attack(const std::function<void(PlantedHead&, int64_t, absl::Span<float>)>& release) {
  PlantedHead head;
  GradientSplitter splitter;
  SurrogateHead surrogate;
  std::vector<float> log_ratios, matching;
  std::vector<uint8_t> labels;
  for (int batch = 0; batch < kBatches; ++batch) {
    head.Next();
    Matrix gradients(kRows, kWidth);
    for (int64_t j = 0; j < kRows; ++j) {
      release(head, j, gradients.row(j));
    }
    const SurrogateScores scores = surrogate.Take(splitter.Split(gradients), head.activations);
    if (batch >= kBatches - kTested) {
      log_ratios.insert(log_ratios.end(), scores.log_ratios.begin(), scores.log_ratios.end());
      matching.insert(matching.end(), scores.matching.begin(), scores.matching.end());
      labels.insert(labels.end(), head.labels.begin(), head.labels.end());
    }
  }
  return {*LeakAuc(log_ratios, labels), *LeakAuc(matching, labels)};
}

void AddLabel(const PlantedHead& head, int64_t row, double shift, absl::Span<float> gradient) {
  for (int64_t k = 0; k < kWidth; ++k) {
    gradient[k] += static_cast<float>((0.25 - head.labels[row] + shift) * head.directions.row(row)[k]);
  }
}

TEST(SurrogateHeadTest, ReadsUnprotectedGradients) {
  const Reached reached =
      Attack([](PlantedHead& head, int64_t row, absl::Span<float> gradient) { AddLabel(head, row, 0, gradient); });
  EXPECT_GT(reached.log_ratio, 0.99);
  EXPECT_GT(reached.matching, 0.99);
}

// Noise along the difference of the class means, as much as leaves two Gaussians half a standard deviation apart there:
// 0.638 for an adversary that looks along it. What lies across is 0 on average and bare.
TEST(SurrogateHeadTest, LearnsWhereNoiseAlongTheMeanDifferenceLeavesTheLabelBare) {
  const Reached reached = Attack([](PlantedHead& head, int64_t row, absl::Span<float> gradient) {
    AddLabel(head, row, 0, gradient);
    gradient[0] += static_cast<float>(2 * head.Noise());
  });
  EXPECT_GT(reached.log_ratio, 0.95);
  EXPECT_GT(reached.matching, 0.7);
  EXPECT_GT(reached.log_ratio, reached.matching);  // Which has no model of the noise.
}

// The Gaussian mechanism on the label: no adversary is above Phi(mu / sqrt 2), mu = 1 / sigma. The standard error over
// 10,000 examples is below 0.007.
TEST(SurrogateHeadTest, ReadsNoMoreThanNoisedLabelsHold) {
  for (double sigma : {1.0, 2.0}) {
    const Reached reached = Attack([sigma](PlantedHead& head, int64_t row, absl::Span<float> gradient) {
      AddLabel(head, row, sigma * head.Noise(), gradient);
    });
    const double bound = 0.5 * std::erfc(-1 / (2 * sigma));
    EXPECT_LT(reached.log_ratio, bound + 0.03) << sigma;
    EXPECT_GT(reached.log_ratio, bound - 0.08) << sigma;
  }
}

TEST(SurrogateHeadTest, FindsNothingInNoise) {
  const Reached reached = Attack([](PlantedHead& head, int64_t, absl::Span<float> gradient) {
    for (float& component : gradient) {
      component = static_cast<float>(head.Noise());
    }
  });
  EXPECT_NEAR(reached.log_ratio, 0.5, 0.03);
  EXPECT_NEAR(reached.matching, 0.5, 0.03);
}

TEST(SurrogateHeadTest, ScoresNothingForABatchThatTellsNothing) {
  GradientSplitter splitter;
  SurrogateHead surrogate;
  const SurrogateScores scores = surrogate.Take(splitter.Split(Matrix(4, 3)), Matrix(4, 2));
  EXPECT_EQ(scores.log_ratios, std::vector<double>(4, 0));
  EXPECT_EQ(scores.matching, std::vector<double>(4, 0));
}

// Wider than what the surrogate keeps of them.
TEST(SurrogateHeadTest, TakesActivationsOfAnyWidth) {
  PlantedHead head;
  GradientSplitter splitter;
  SurrogateHead surrogate;
  for (int64_t width : {1, 1, 300, 300, 7}) {
    head.Next();
    Matrix activations(kRows, width);
    for (int64_t i = 0; i < activations.size(); ++i) {
      activations.data()[i] = static_cast<float>(head.Noise());
    }
    const SurrogateScores scores = surrogate.Take(splitter.Split(head.directions), activations);
    for (double score : scores.log_ratios) {
      EXPECT_TRUE(std::isfinite(score));
    }
  }
}

}  // namespace
}  // namespace splitveil
