#include "nonlabel_party/protection/privacy_loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "common/dataset/features.h"

namespace splitveil {
namespace {

using Rows = std::vector<std::vector<double>>;
using Loss = std::function<ActivationLoss(ConstMatrixView, const BatchAttribute&)>;

constexpr double kSigma = 0.7;

struct Batch {
  Matrix activations;
  std::vector<uint8_t> numbers;
  int64_t values = 0;

  BatchAttribute attribute() const { return {numbers, values}; }
};

Batch RandomBatch(int64_t rows, int64_t cols, int64_t values, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Batch batch{Matrix(rows, cols), {}, values};
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t value = i % 7 == 6 ? kUnknownAttribute : static_cast<uint8_t>(random() % values);
    batch.numbers.push_back(value);
    for (int64_t k = 0; k < cols; ++k) {
      // Components of clearly different spread, so that principal directions are far from turning into each other.
      batch.activations.row(i)[k] = normal(random) * (1.0f + static_cast<float>(k)) +
                                    (value == kUnknownAttribute ? 0.0f : 0.3f * static_cast<float>(value * (k % 3)));
    }
  }
  return batch;
}

// Central differences by every component, of double precision but for the rounding of the floats that are moved, which
// cancels: what is divided by is the step that they really made.
void ExpectDerivative(const Loss& loss, Batch batch) {
  const ActivationLoss found = loss(batch.activations, batch.attribute());
  double largest = 0;
  for (int64_t k = 0; k < found.gradient.size(); ++k) {
    largest = std::max(largest, static_cast<double>(std::abs(found.gradient.data()[k])));
  }
  ASSERT_GT(largest, 0);
  for (int64_t k = 0; k < batch.activations.size(); ++k) {
    float& component = batch.activations.data()[k];
    const float before = component;
    const float up = component = before + 4e-3f;
    const double above = loss(batch.activations, batch.attribute()).value;
    const float down = component = before - 4e-3f;
    const double below = loss(batch.activations, batch.attribute()).value;
    component = before;
    const double expected = (above - below) / (static_cast<double>(up) - down);
    EXPECT_NEAR(found.gradient.data()[k], expected, 1e-4 * largest) << "component " << k;
  }
}

// Equation 3 once more, by plain loops: covariance inverted by Gauss-Jordan elimination.
struct PlainGaussian {
  int64_t count = 0;
  std::vector<double> mean;
  Rows covariance;
};

PlainGaussian FitPlainly(const Batch& batch, const std::function<bool(uint8_t)>& takes) {
  const int64_t d = batch.activations.cols();
  PlainGaussian fit{0, std::vector<double>(d), Rows(d, std::vector<double>(d))};
  for (int64_t i = 0; i < batch.activations.rows(); ++i) {
    if (takes(batch.numbers[i])) {
      ++fit.count;
      for (int64_t k = 0; k < d; ++k) {
        fit.mean[k] += batch.activations.row(i)[k];
      }
    }
  }
  for (double& mean : fit.mean) {
    mean /= fit.count;
  }
  for (int64_t i = 0; i < batch.activations.rows(); ++i) {
    if (!takes(batch.numbers[i])) {
      continue;
    }
    for (int64_t k = 0; k < d; ++k) {
      for (int64_t l = 0; l < d; ++l) {
        fit.covariance[k][l] +=
            (batch.activations.row(i)[k] - fit.mean[k]) * (batch.activations.row(i)[l] - fit.mean[l]) / fit.count;
      }
    }
  }
  for (int64_t k = 0; k < d; ++k) {
    fit.covariance[k][k] += kSigma * kSigma;
  }
  return fit;
}

// The inverse, and the determinant's logarithm, of a positive definite matrix.
Rows Inverse(Rows matrix, double& log_determinant) {
  const size_t d = matrix.size();
  Rows inverse(d, std::vector<double>(d));
  log_determinant = 0;
  for (size_t k = 0; k < d; ++k) {
    inverse[k][k] = 1;
  }
  for (size_t pivot = 0; pivot < d; ++pivot) {
    const double by = matrix[pivot][pivot];
    log_determinant += std::log(by);
    for (size_t l = 0; l < d; ++l) {
      matrix[pivot][l] /= by;
      inverse[pivot][l] /= by;
    }
    for (size_t k = 0; k < d; ++k) {
      if (k == pivot) {
        continue;
      }
      const double times = matrix[k][pivot];
      for (size_t l = 0; l < d; ++l) {
        matrix[k][l] -= times * matrix[pivot][l];
        inverse[k][l] -= times * inverse[pivot][l];
      }
    }
  }
  return inverse;
}

double PlainDivergence(const PlainGaussian& p, const PlainGaussian& q) {
  double log_p = 0, log_q = 0;
  Inverse(p.covariance, log_p);
  const Rows precision = Inverse(q.covariance, log_q);
  double sum = log_q - log_p - static_cast<double>(p.mean.size());
  for (size_t k = 0; k < p.mean.size(); ++k) {
    for (size_t l = 0; l < p.mean.size(); ++l) {
      sum += precision[k][l] * (p.covariance[l][k] + (q.mean[k] - p.mean[k]) * (q.mean[l] - p.mean[l]));
    }
  }
  return sum / 2;
}

TEST(PrivacyLossTest, IsEquationThreeByPlainLoops) {
  const Batch batch = RandomBatch(60, 5, 4, 1);
  std::vector<PlainGaussian> fits;
  double known = 0;
  for (uint8_t value = 0; value < batch.values; ++value) {
    fits.push_back(FitPlainly(batch, [=](uint8_t number) { return number == value; }));
    known += fits.back().count;
  }
  double expected = 0;
  for (size_t a = 0; a < fits.size(); ++a) {
    for (size_t b = 0; b < fits.size(); ++b) {
      expected += a == b ? 0 : fits[a].count * fits[b].count / (known * known) * PlainDivergence(fits[a], fits[b]);
    }
  }
  const double found = GaussianPrivacyLoss(batch.activations, batch.attribute(), kSigma).value;
  EXPECT_NEAR(found, expected, 1e-9 * expected);
}

TEST(PrivacyLossTest, OfTheMarginalByPlainLoops) {
  const Batch batch = RandomBatch(60, 5, 3, 2);
  const PlainGaussian all = FitPlainly(batch, [&](uint8_t number) { return number < batch.values; });
  double expected = 0;
  for (uint8_t value = 0; value < batch.values; ++value) {
    const PlainGaussian one = FitPlainly(batch, [=](uint8_t number) { return number == value; });
    expected += one.count / static_cast<double>(all.count) * PlainDivergence(one, all);
  }
  EXPECT_NEAR(MarginalPrivacyLoss(batch.activations, batch.attribute(), kSigma).value, expected, 1e-9 * expected);
}

TEST(PrivacyLossTest, GaussianDerivative) {
  for (const int64_t values : {2, 6}) {
    ExpectDerivative([](ConstMatrixView z, const BatchAttribute& s) { return GaussianPrivacyLoss(z, s, kSigma); },
                     RandomBatch(40, 4, values, 3));
  }
}

TEST(PrivacyLossTest, MarginalDerivative) {
  ExpectDerivative([](ConstMatrixView z, const BatchAttribute& s) { return MarginalPrivacyLoss(z, s, kSigma); },
                   RandomBatch(40, 4, 3, 4));
}

TEST(PrivacyLossTest, KernelDerivativeThroughTheComponents) {
  for (const int64_t values : {2, 6}) {
    ExpectDerivative([](ConstMatrixView z, const BatchAttribute& s) { return KernelPrivacyLoss(z, s, kSigma, 2); },
                     RandomBatch(40, 5, values, 5));
  }
}

// log of the density of the values' kernel estimate, by its definition.
double LogKernelDensity(const Rows& centres, double variance, const std::vector<double>& at) {
  double sum = 0;
  for (const std::vector<double>& centre : centres) {
    double squared = 0;
    for (size_t k = 0; k < at.size(); ++k) {
      squared += (at[k] - centre[k]) * (at[k] - centre[k]);
    }
    sum += std::exp(-squared / (2 * variance));
  }
  return std::log(sum / static_cast<double>(centres.size())) -
         static_cast<double>(at.size()) / 2 * std::log(2 * M_PI * variance);
}

// Activations that lie in the plane of two coordinates have those for principal components, so that no decomposition is
// needed to tell what the loss is.
TEST(PrivacyLossTest, KernelLossByItsDefinitionInAPlane) {
  Batch batch = RandomBatch(50, 5, 3, 6);
  for (int64_t i = 0; i < 50; ++i) {
    for (const int64_t k : {0, 1, 3}) {
      batch.activations.row(i)[k] = 0.25f;
    }
  }
  std::vector<Rows> classes(3);
  for (int64_t i = 0; i < 50; ++i) {
    if (batch.numbers[i] < 3) {
      classes[batch.numbers[i]].push_back({batch.activations.row(i)[2], batch.activations.row(i)[4]});
    }
  }
  std::vector<double> variances;
  double known = 0;
  for (const Rows& rows : classes) {
    double spread = 0;
    for (int k = 0; k < 2; ++k) {
      double mean = 0;
      for (const auto& row : rows) {
        mean += row[k] / static_cast<double>(rows.size());
      }
      for (const auto& row : rows) {
        spread += (row[k] - mean) * (row[k] - mean);
      }
    }
    const auto count = static_cast<double>(rows.size());
    known += count;
    variances.push_back(kSigma * kSigma + std::pow(count, -2.0 / 6) * spread / (2 * count));
  }
  double expected = 0;
  for (size_t a = 0; a < 3; ++a) {
    for (size_t b = 0; b < 3; ++b) {
      if (a == b) {
        continue;
      }
      double divergence = 0;
      for (const auto& row : classes[a]) {
        divergence +=
            (LogKernelDensity(classes[a], variances[a], row) - LogKernelDensity(classes[b], variances[b], row)) /
            static_cast<double>(classes[a].size());
      }
      expected += static_cast<double>(classes[a].size() * classes[b].size()) / (known * known) * divergence;
    }
  }
  const double found = KernelPrivacyLoss(batch.activations, batch.attribute(), kSigma, 2).value;
  EXPECT_NEAR(found, expected, 1e-9 * std::abs(expected));
}

TEST(PrivacyLossTest, TinyClassesAreStable) {
  Batch batch = RandomBatch(30, 6, 6, 7);
  std::fill(batch.numbers.begin(), batch.numbers.end(), 0);
  batch.numbers[3] = 5;  // One example of a value, none of four others.
  for (const ActivationLoss& loss : {GaussianPrivacyLoss(batch.activations, batch.attribute(), kSigma),
                                     KernelPrivacyLoss(batch.activations, batch.attribute(), kSigma, 2),
                                     MarginalPrivacyLoss(batch.activations, batch.attribute(), kSigma)}) {
    EXPECT_TRUE(std::isfinite(loss.value));
    EXPECT_TRUE(std::all_of(loss.gradient.data(), loss.gradient.data() + loss.gradient.size(),
                            [](float value) { return std::isfinite(value); }));
  }
}

// Two columns that are one, so large that the noise is lost beside them: no factor, and no number that looks like one.
TEST(PrivacyLossTest, ASingularCovarianceHasNoLoss) {
  Batch batch = RandomBatch(30, 2, 2, 9);
  for (int64_t i = 0; i < 30; ++i) {
    batch.activations.row(i)[0] *= 1e8f;
    batch.activations.row(i)[1] = batch.activations.row(i)[0];
  }
  EXPECT_FALSE(std::isfinite(GaussianPrivacyLoss(batch.activations, batch.attribute(), 1e-3).value));
  EXPECT_FALSE(std::isfinite(MarginalPrivacyLoss(batch.activations, batch.attribute(), 1e-3).value));
}

TEST(PrivacyLossTest, UnknownAttributesTellNothing) {
  Batch batch = RandomBatch(30, 4, 2, 8);
  std::fill(batch.numbers.begin(), batch.numbers.end(), kUnknownAttribute);
  const ActivationLoss loss = GaussianPrivacyLoss(batch.activations, batch.attribute(), kSigma);
  EXPECT_EQ(loss.value, 0);
  EXPECT_EQ(MarginalPrivacyLoss(batch.activations, batch.attribute(), kSigma).value, 0);
  EXPECT_TRUE(std::all_of(loss.gradient.data(), loss.gradient.data() + loss.gradient.size(),
                          [](float value) { return value == 0; }));
}

}  // namespace
}  // namespace splitveil
