#include "common/leakage/gradient_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"
#include "common/matrix/matrix.h"

namespace splitveil {

namespace {

// Rows at unit length, so that inner products are cosines, whatever the scale of a row; a row of zeros stays.
Matrix UnitRows(ConstMatrixView rows) {
  Matrix unit(rows.rows(), rows.cols());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    const double norm = std::sqrt(SquaredNorm(rows.row(j)));
    // A NaN norm is not zero: it must reach the AUC, which refuses it.
    const double scale = norm == 0 ? 0 : 1 / norm;
    for (int64_t k = 0; k < rows.cols(); ++k) {
      unit.row(j)[k] = static_cast<float>(rows.row(j)[k] * scale);
    }
  }
  return unit;
}

constexpr int64_t kVector = 4;
constexpr int64_t kVectors = 4;
constexpr int64_t kLanes = kVector * kVectors;
using Vector = float __attribute__((vector_size(kVector * sizeof(float))));
using Cosines = std::array<float, kLanes>;

// Inner products of a row with kLanes others, given as columns: the components of one number lie side by side, and the
// sums stay in registers.
Cosines ProductsWithColumns(absl::Span<const float> row, const float* columns) {
  std::array<Vector, kVectors> sums = {};
  for (float component : row) {
    std::array<Vector, kVectors> column;
    std::memcpy(&column, columns, sizeof column);
    columns += kLanes;
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] += component * column[v];
    }
  }
  Cosines products;
  std::memcpy(&products, &sums, sizeof products);
  return products;
}

}  // namespace

std::vector<float> MajorityDirectionScores(ConstMatrixView gradients) {
  const int64_t rows = gradients.rows();
  const int64_t references = std::min(rows, kMajorityReferences);
  const Matrix unit = UnitRows(gradients);
  std::vector<double> agreeing(rows);
  std::vector<double> cosines(rows);
  std::vector<double> others(rows, static_cast<double>(references));
  for (int64_t first = 0; first < references; first += kLanes) {
    const int64_t lanes = std::min(kLanes, references - first);
    Matrix columns(gradients.cols(), kLanes);
    std::array<int64_t, kLanes> reference = {};
    for (int64_t lane = 0; lane < lanes; ++lane) {
      reference[lane] = (first + lane) * rows / references;
      others[reference[lane]] -= 1;
      for (int64_t k = 0; k < gradients.cols(); ++k) {
        columns.row(k)[lane] = unit.row(reference[lane])[k];
      }
    }
    for (int64_t j = 0; j < rows; ++j) {
      const Cosines products = ProductsWithColumns(unit.row(j), columns.data());
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const bool other = reference[lane] != j;
        agreeing[j] += other && products[lane] > 0 ? 1 : 0;
        cosines[j] += other ? products[lane] : 0;
      }
    }
  }
  std::vector<float> scores(rows);
  for (int64_t j = 0; j < rows; ++j) {
    const double counted = std::max(1.0, others[j]);
    scores[j] = static_cast<float>(-(agreeing[j] + cosines[j] / counted / 4) / counted);
  }
  return scores;
}

namespace {

// The plane between two centres: a row lies on the second's side where <row, normal> > offset, and
// 2 (<row, normal> - offset) is the squared distance to the first less that to the second.
struct Bisector {
  std::vector<float> normal;
  double offset = 0;
};

Bisector Between(const std::vector<double>& first, const std::vector<double>& second) {
  Bisector bisector;
  bisector.normal.reserve(first.size());
  for (size_t k = 0; k < first.size(); ++k) {
    bisector.normal.push_back(Saturated(second[k] - first[k]));
    bisector.offset += (second[k] - first[k]) * (second[k] + first[k]) / 2;
  }
  return bisector;
}

// Means of the two groups, from the weight 1 or 0 of each row in the second. Both groups hold rows.
Bisector BetweenMeans(ConstMatrixView rows, const std::vector<double>& in_second, const std::vector<double>& mean) {
  double size = 0;
  for (double weight : in_second) {
    size += weight;
  }
  const double others = static_cast<double>(rows.rows()) - size;
  std::vector<double> second = WeightedRowSum(rows, in_second);
  std::vector<double> first(second.size());
  for (size_t k = 0; k < second.size(); ++k) {
    first[k] = (mean[k] * static_cast<double>(rows.rows()) - second[k]) / others;
    second[k] /= size;
  }
  return Between(first, second);
}

}  // namespace

TwoMeans ClusterInTwo(ConstMatrixView rows, absl::Span<const float> direction) {
  TwoMeans clusters;
  clusters.scores.resize(rows.rows());
  if (direction.empty()) {
    return clusters;
  }
  const std::vector<double> mean = MeanRow(rows);
  Bisector bisector;
  bisector.normal.assign(direction.begin(), direction.end());
  for (size_t k = 0; k < mean.size(); ++k) {
    bisector.offset += mean[k] * direction[k];
  }
  std::vector<double> in_second(rows.rows());
  std::vector<double> margins;
  double second_size = 0;
  for (int iteration = 0; iteration <= kTwoMeansIterations; ++iteration) {
    bool changed = false;
    second_size = 0;
    margins = InnerProducts(rows, bisector.normal);
    for (int64_t j = 0; j < rows.rows(); ++j) {
      margins[j] -= bisector.offset;
      const double side = margins[j] > 0 ? 1 : 0;
      changed = changed || side != in_second[j];
      in_second[j] = side;
      second_size += side;
    }
    if (second_size == 0 || second_size == static_cast<double>(rows.rows())) {
      return clusters;
    }
    if (!changed) {
      break;
    }
    bisector = BetweenMeans(rows, in_second, mean);
  }
  clusters.share_along = second_size / static_cast<double>(rows.rows());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    clusters.scores[j] = Saturated(2 * margins[j]);
  }
  return clusters;
}

}  // namespace splitveil
