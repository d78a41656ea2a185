// Over 10,000 draws the perturbed gradients are unbiased and have the promised covariance, class by class and row by
// row. Each test compares a few hundred numbers with their expectation at six standard deviations: a sound protection
// fails one with probability below 1e-6 (2e-9 a number). The key is fixed, so a test that passes once passes always.
// Each wrong variant known from other systems must fail the same comparison.
#include <array>
#include <cmath>
#include <cstdint>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "label_party/marvell/marvell_solver.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 12;
constexpr int64_t kCols = 5;  // Odd: rows of noise do not lie side by side.
constexpr uint32_t kDraws = 10'000;
constexpr double kDeviations = 6;

using Vector = std::array<double, kCols>;
using Covariance = std::array<Vector, kCols>;

struct Batch {
  Matrix directions{kRows, kCols}, gradients{kRows, kCols};
  std::vector<float> probabilities = std::vector<float>(kRows);
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);
};

// `wider`: the class of larger variance, which is the rarer one: its gradients are the longer.
Batch MakeBatch(uint8_t wider) {
  std::mt19937 random(9);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Batch batch;
  for (int64_t j = 0; j < kRows; ++j) {
    batch.labels[j] = (j % 3 == 1) == (wider == 1) ? 1 : 0;
    batch.probabilities[j] = (wider == 1 ? 0.3F : 0.7F) + 0.02F * static_cast<float>(j % 5 - 2);
    for (int64_t k = 0; k < kCols; ++k) {
      batch.directions.row(j)[k] = -0.7F * (k == 1 ? -2.0F : 1.0F) + 0.4F * normal(random);
      batch.gradients.row(j)[k] =
          (batch.probabilities[j] - static_cast<float>(batch.labels[j])) * batch.directions.row(j)[k];
    }
  }
  return batch;
}

// Moments of rows that count to either class by their probabilities, by the textbook, in two passes; independent of
// ExpectedMoments.
struct Moments {
  Vector dg = {};
  double g = 0, u = 0, v = 0, p = 0, largest_squared_norm = 0;
};

double SquaredNormOf(absl::Span<const float> row) {
  double squared = 0;
  for (float component : row) {
    squared += static_cast<double>(component) * component;
  }
  return squared;
}

Moments MomentsOf(const Batch& batch) {
  const auto weight = [&](int label, int64_t j) {
    const double p = batch.probabilities[j];
    return label == 1 ? p : 1 - p;
  };
  const auto component = [&](int label, int64_t j, int64_t k) {
    return (static_cast<double>(batch.probabilities[j]) - label) * batch.directions.row(j)[k];
  };
  Vector mean[2] = {};
  double count[2] = {}, variance[2] = {};
  Moments m;
  for (int label : {0, 1}) {
    for (int64_t j = 0; j < kRows; ++j) {
      count[label] += weight(label, j);
      double squared_norm = 0;
      for (int64_t k = 0; k < kCols; ++k) {
        mean[label][k] += weight(label, j) * component(label, j, k);
        squared_norm += component(label, j, k) * component(label, j, k);
      }
      m.largest_squared_norm = std::max(m.largest_squared_norm, squared_norm);
    }
    for (double& sum : mean[label]) {
      sum /= count[label];
    }
    for (int64_t j = 0; j < kRows; ++j) {
      for (int64_t k = 0; k < kCols; ++k) {
        const double deviation = component(label, j, k) - mean[label][k];
        variance[label] += weight(label, j) * deviation * deviation / count[label] / kCols;
      }
    }
  }
  for (int64_t k = 0; k < kCols; ++k) {
    m.dg[k] = mean[1][k] - mean[0][k];
    m.g += m.dg[k] * m.dg[k];
  }
  m.u = variance[0];
  m.v = variance[1];
  m.p = count[1] / kRows;
  return m;
}

// A covariance by its axes: variance `along` the unit vector `line`, `across` on each direction orthogonal to it;
// equation (12).
struct Axes {
  Axes(const Vector& direction, double along, double across) : line(direction), along(along), across(across) {
    double squared = 0;
    for (double component : line) {
      squared += component * component;
    }
    for (double& component : line) {
      component /= std::sqrt(squared);
    }
  }
  double Entry(int64_t a, int64_t b) const { return (along - across) * line[a] * line[b] + (a == b ? across : 0); }

  Vector line;
  double along;
  double across;
};

// Sums of the noise of each row over the draws.
struct RowSums {
  Vector sum = {};
  Covariance products = {};
};
using Sample = std::array<RowSums, kRows>;

void AddNoise(absl::Span<const float> clean, absl::Span<const float> perturbed, RowSums& sums) {
  Vector noise;
  for (int64_t k = 0; k < kCols; ++k) {
    noise[k] = static_cast<double>(perturbed[k]) - clean[k];
    sums.sum[k] += noise[k];
  }
  for (int64_t a = 0; a < kCols; ++a) {
    for (int64_t b = 0; b < kCols; ++b) {
      sums.products[a][b] += noise[a] * noise[b];
    }
  }
}

std::unique_ptr<GradientProtection> MakeProtection(const std::string& text) {
  v1::GradientProtection config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  std::array<uint8_t, 32> key;
  key.fill(0x5a);
  return std::move(MakeProtection(config, *SecureGaussian::Create(SecretKey(key)))->gradients);
}

Sample Draw(GradientProtection& protection, const Batch& batch) {
  Sample sample;
  Matrix out;
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    EXPECT_TRUE(protection
                    .Perturb({batch.directions, batch.probabilities}, {batch.gradients, batch.labels},
                             {draw / 100, draw % 100, 0}, out)
                    .ok());
    for (int64_t j = 0; j < kRows; ++j) {
      AddNoise(batch.gradients.row(j), out.row(j), sample[j]);
    }
  }
  return sample;
}

Sample Draw(const std::string& text, const Batch& batch) { return Draw(*MakeProtection(text), batch); }

// The rows of one class as one row.
RowSums Pool(const Sample& sample, const Batch& batch, uint8_t label) {
  RowSums pool;
  for (int64_t j = 0; j < kRows; ++j) {
    for (int64_t a = 0; a < kCols && batch.labels[j] == label; ++a) {
      pool.sum[a] += sample[j].sum[a];
      for (int64_t b = 0; b < kCols; ++b) {
        pool.products[a][b] += sample[j].products[a][b];
      }
    }
  }
  return pool;
}

// Largest distance of the means, the covariances, the variance along the line and the mean variance across it from
// their expectation, in standard deviations of the estimates: Var(mean) = S_aa / n, Var(mean of products) =
// (S_aa S_bb + S_ab^2) / n for Gaussians. Rounding of floats of order one is allowed for where no noise is expected.
double WorstDeviation(const RowSums& sums, double n, const Axes& expected) {
  constexpr double kRounding = 1e-7;
  double worst = 0;
  double trace = 0;
  double on_line = 0;
  for (int64_t a = 0; a < kCols; ++a) {
    const double variance = expected.Entry(a, a);
    worst = std::max(worst, std::abs(sums.sum[a]) / n / (std::sqrt(variance / n) + kRounding));
    trace += sums.products[a][a] / n;
    for (int64_t b = 0; b < kCols; ++b) {
      on_line += expected.line[a] * expected.line[b] * sums.products[a][b] / n;
      const double covariance = expected.Entry(a, b);
      const double spread = variance * expected.Entry(b, b) + covariance * covariance;
      worst = std::max(worst, std::abs(sums.products[a][b] / n - covariance) / (std::sqrt(spread / n) + kRounding));
    }
  }
  const double off_line = (trace - on_line) / (kCols - 1);
  const double off_line_stddev = expected.across * std::sqrt(2 / (n * (kCols - 1)));
  worst = std::max(worst, std::abs(on_line - expected.along) / (expected.along * std::sqrt(2 / n) + kRounding));
  return std::max(worst, std::abs(off_line - expected.across) / (off_line_stddev + kRounding));
}

double CountOf(const Batch& batch, uint8_t label) {
  return static_cast<double>(std::count(batch.labels.begin(), batch.labels.end(), label)) * kDraws;
}

class MarvellCovarianceTest : public ::testing::TestWithParam<std::tuple<const char*, double, int>> {};

INSTANTIATE_TEST_SUITE_P(Strengths, MarvellCovarianceTest,
                         ::testing::Combine(::testing::Values("s"), ::testing::Values(0.3, 4.0, 25.0),
                                            ::testing::Values(0, 1)));

TEST_P(MarvellCovarianceTest, IsThatOfTheoremTwoInEachClass) {
  const double s = std::get<1>(GetParam());
  const Batch batch = MakeBatch(static_cast<uint8_t>(std::get<2>(GetParam())));
  const Moments m = MomentsOf(batch);
  const Sample sample = Draw("marvell { s: " + std::to_string(s) + " }", batch);
  const MarvellSolution l = *SolveMarvell({kCols, m.u, m.v, m.g, m.p, s * m.g});
  const Axes neg(m.dg, l.lambda1_neg, l.lambda2_neg);
  const Axes pos(m.dg, l.lambda1_pos, l.lambda2_pos);
  EXPECT_LT(WorstDeviation(Pool(sample, batch, 0), CountOf(batch, 0), neg), kDeviations);
  EXPECT_LT(WorstDeviation(Pool(sample, batch, 1), CountOf(batch, 1), pos), kDeviations);

  // Wrong variants: each other's noise, the optimum for u and v swapped, no noise along dg, no noise across it, none.
  EXPECT_GT(WorstDeviation(Pool(sample, batch, 0), CountOf(batch, 0), pos), kDeviations);
  EXPECT_GT(WorstDeviation(Pool(sample, batch, 1), CountOf(batch, 1), neg), kDeviations);
  const MarvellSolution wrong = *SolveMarvell({kCols, m.v, m.u, m.g, m.p, s * m.g});
  EXPECT_GT(
      std::max(
          WorstDeviation(Pool(sample, batch, 0), CountOf(batch, 0), Axes(m.dg, wrong.lambda1_neg, wrong.lambda2_neg)),
          WorstDeviation(Pool(sample, batch, 1), CountOf(batch, 1), Axes(m.dg, wrong.lambda1_pos, wrong.lambda2_pos))),
      kDeviations);
  const bool neg_is_narrow = l.lambda2_neg > 0;
  const RowSums narrow = Pool(sample, batch, neg_is_narrow ? 0 : 1);
  const double narrow_count = CountOf(batch, neg_is_narrow ? 0 : 1);
  const double along = neg_is_narrow ? l.lambda1_neg : l.lambda1_pos;
  const double across = neg_is_narrow ? l.lambda2_neg : l.lambda2_pos;
  EXPECT_GT(WorstDeviation(narrow, narrow_count, Axes(m.dg, across, across)), kDeviations);
  EXPECT_GT(WorstDeviation(narrow, narrow_count, Axes(m.dg, along, 0)), kDeviations);
  EXPECT_GT(WorstDeviation(narrow, narrow_count, Axes({1}, 0, 0)), kDeviations);
}

TEST(IsoCovarianceTest, IsTheSameOnEveryComponent) {
  const Batch batch = MakeBatch(1);
  const double variance = 2 * MomentsOf(batch).largest_squared_norm / kCols;
  const Sample sample = Draw("iso { t: 2 }", batch);
  for (uint8_t label : {0, 1}) {
    const RowSums pool = Pool(sample, batch, label);
    EXPECT_LT(WorstDeviation(pool, CountOf(batch, label), Axes({1}, variance, variance)), kDeviations);
    EXPECT_GT(WorstDeviation(pool, CountOf(batch, label), Axes({1}, variance * kCols, variance * kCols)),
              kDeviations);  // t ||g_max||^2 a component, not t/d.
    EXPECT_GT(WorstDeviation(pool, CountOf(batch, label), Axes({1}, 0, 0)), kDeviations);
  }
}

TEST(MaxNormCovarianceTest, LiftsEachRowToTheLongestAlongItsOwnLine) {
  const Batch batch = MakeBatch(1);
  const double largest = MomentsOf(batch).largest_squared_norm;
  double mean = 0;
  for (int64_t j = 0; j < kRows; ++j) {
    mean += SquaredNormOf(batch.gradients.row(j)) / kRows;
  }
  int told_apart = 0;
  const Sample sample = Draw("max_norm {}", batch);
  for (int64_t j = 0; j < kRows; ++j) {
    const double squared_norm = SquaredNormOf(batch.gradients.row(j));
    Vector line;
    std::copy(batch.gradients.row(j).begin(), batch.gradients.row(j).end(), line.begin());
    EXPECT_LT(WorstDeviation(sample[j], kDraws, Axes(line, largest - squared_norm, 0)), kDeviations) << j;
    if (squared_norm == largest) {
      continue;
    }
    // Wrong variants: isotropic noise of the same power, and one sigma for all rows from the whole batch's norm.
    const double a_component = (largest - squared_norm) / kCols;
    EXPECT_GT(WorstDeviation(sample[j], kDraws, Axes(line, a_component, a_component)), kDeviations) << j;
    const double whole_batch = squared_norm * (largest / mean - 1);
    told_apart += WorstDeviation(sample[j], kDraws, Axes(line, whole_batch, 0)) > kDeviations;
  }
  EXPECT_GT(told_apart, 3 * kRows / 4);  // Some row's length is that of the batch by chance.
}

// Labels that are all of one class move nothing of the noise.
TEST(OneClassCovarianceTest, IsThatOfAnyOtherLabels) {
  Batch single = MakeBatch(1);
  const Moments m = MomentsOf(single);
  single.labels.assign(kRows, 0);
  const RowSums sums = Pool(Draw(*MakeProtection("marvell { s: 4 }"), single), single, 0);
  const MarvellSolution l = *SolveMarvell({kCols, m.u, m.v, m.g, m.p, 4 * m.g});
  EXPECT_LT(WorstDeviation(sums, CountOf(single, 0), Axes(m.dg, l.lambda1_neg, l.lambda2_neg)), kDeviations);
}

}  // namespace
}  // namespace splitveil
