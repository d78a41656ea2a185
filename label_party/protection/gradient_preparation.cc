#include "label_party/protection/gradient_preparation.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace splitveil {
namespace {

double Distance(absl::Span<const float> x, absl::Span<const float> y) {
  constexpr size_t kLanes = 8;  // Independent sums, so that the compiler can take eight components at a time.
  std::array<float, kLanes> sums = {};
  size_t k = 0;
  for (; k + kLanes <= x.size(); k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float difference = x[k + lane] - y[k + lane];
      sums[lane] += difference * difference;
    }
  }
  // In double from here on: centring cancels most of the digits.
  double total = 0;
  for (float sum : sums) {
    total += sum;
  }
  for (; k < x.size(); ++k) {
    const double difference = static_cast<double>(x[k]) - y[k];
    total += difference * difference;
  }
  return std::sqrt(total);
}

// Means of the distances from each point to all points, and over all pairs.
struct Means {
  std::vector<double> of_row;
  double all = 0;

  double Centred(double distance, int64_t i, int64_t j) const { return distance - of_row[i] - of_row[j] + all; }
};

// What the first pass over all pairs computes. Sums are over ordered pairs; equal points are at distance 0.
struct Pairs {
  Means a, b;
  double sum_ab = 0, sum_aa = 0, sum_bb = 0;  // Of the double-centred distances.

  // Whether R is a number, and more than rounding makes of 0.
  // If all labels or all activations are equal, R is 0 / 0: there is nothing to decorrelate.
  bool defined() const {
    constexpr double kRounding = 1e-12;
    return sum_aa > 0 && sum_bb > 0 && sum_ab > kRounding * std::sqrt(sum_aa * sum_bb);
  }
};

// sum (x - row means + mean) (y - ...) over all pairs. The row means are removed after the sum, by sum x y - 2 n sum of
// products of row means + n^2 product of means: one pass instead of two. 0 if only rounding remains.
double CentredSum(double raw, const Means& x, const Means& y, double raw_scale) {
  constexpr double kRounding = 1e-12;
  const double n = static_cast<double>(x.of_row.size());
  double of_means = 0;
  for (size_t i = 0; i < x.of_row.size(); ++i) {
    of_means += x.of_row[i] * y.of_row[i];
  }
  const double sum = raw - 2 * n * of_means + n * n * x.all * y.all;
  return std::abs(sum) > kRounding * raw_scale ? sum : 0;
}

Pairs SumPairs(ConstMatrixView z, absl::Span<const float> y) {
  const int64_t n = z.rows();
  Pairs pairs;
  pairs.a.of_row.assign(static_cast<size_t>(n), 0);
  pairs.b.of_row.assign(static_cast<size_t>(n), 0);
  double ab = 0;
  double aa = 0;
  double bb = 0;
  for (int64_t i = 0; i < n; ++i) {
    // Distances are computed again in the second pass: a matrix of all pairs would not fit for large batches.
    for (int64_t j = 0; j < i; ++j) {
      const double a = Distance(z.row(i), z.row(j));
      const double b = std::abs(static_cast<double>(y[i]) - y[j]);
      pairs.a.of_row[i] += a;
      pairs.a.of_row[j] += a;
      pairs.b.of_row[i] += b;
      pairs.b.of_row[j] += b;
      ab += 2 * a * b;
      aa += 2 * a * a;
      bb += 2 * b * b;
    }
  }
  for (Means* means : {&pairs.a, &pairs.b}) {
    for (double& mean : means->of_row) {
      mean /= static_cast<double>(n);
      means->all += mean / static_cast<double>(n);
    }
  }
  pairs.sum_ab = CentredSum(ab, pairs.a, pairs.b, std::sqrt(aa * bb));
  pairs.sum_aa = CentredSum(aa, pairs.a, pairs.a, aa);
  pairs.sum_bb = CentredSum(bb, pairs.b, pairs.b, bb);
  return pairs;
}

}  // namespace

// Scaled and not cut by component: the direction, along which the model learns, stays.
void ClipRows(double max_norm, Matrix& gradients) {
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    const absl::Span<float> row = gradients.row(j);
    double squares = 0;
    for (const float value : row) {
      squares += static_cast<double>(value) * value;
    }
    const double norm = std::sqrt(squares);
    // Also NaN: such a row stays as it is, and is refused before it is sent.
    if (!(norm > max_norm)) {
      continue;
    }
    const auto scale = static_cast<float>(max_norm / norm);
    for (float& value : row) {
      value *= scale;
    }
  }
}

absl::Status AddDistanceCorrelationGradient(double weight, ConstMatrixView z, absl::Span<const float> y,
                                            Matrix& cut_gradient) {
  if (static_cast<int64_t>(y.size()) != z.rows() || cut_gradient.rows() != z.rows() ||
      cut_gradient.cols() != z.cols()) {
    return absl::InvalidArgumentError(absl::StrCat("distance correlation: expected gradients [", z.rows(), ", ",
                                                   z.cols(), "] and as many labels, found [", cut_gradient.rows(), ", ",
                                                   cut_gradient.cols(), "] and ", y.size()));
  }
  // Székely, Rizzo and Bakirov (Ann. Stat. 2007); the penalty is log R, whose gradient is relative to the correlation
  // that is left.
  const Pairs pairs = SumPairs(z, y);
  if (!pairs.defined()) {
    return absl::OkStatus();
  }
  // Times the batch, since the bottom model takes the mean of its rows.
  const double scale = weight * static_cast<double>(z.rows());
  for (int64_t i = 0; i < z.rows(); ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const double a = Distance(z.row(i), z.row(j));
      // The distance has no derivative at 0: such a pair is left out, which is one of its subgradients.
      if (a == 0) {
        continue;
      }
      const double b = std::abs(static_cast<double>(y[i]) - y[j]);
      // d log R / d a_ij, over the distance: the unit vector from j to i follows below.
      const auto pull = static_cast<float>(
          scale * (pairs.b.Centred(b, i, j) / pairs.sum_ab - pairs.a.Centred(a, i, j) / pairs.sum_aa) / a);
      const float* from = z.row(i).data();
      const float* to = z.row(j).data();
      float* row_i = cut_gradient.row(i).data();
      float* row_j = cut_gradient.row(j).data();
      for (int64_t k = 0; k < z.cols(); ++k) {
        const float term = pull * (from[k] - to[k]);
        row_i[k] += term;
        row_j[k] -= term;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
