#include "common/leakage/scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

// Saturated: a norm beyond a float's range must stay comparable, or one huge row would make the AUC undefined.
std::vector<float> Roots(absl::Span<const double> squares) {
  std::vector<float> roots;
  roots.reserve(squares.size());
  for (double square : squares) {
    roots.push_back(Saturated(std::sqrt(square)));
  }
  return roots;
}

std::vector<float> Cosines(ConstMatrixView gradients, absl::Span<const float> g_plus,
                           absl::Span<const double> squared_norms) {
  std::vector<float> scores(gradients.rows());
  const double norm_plus = std::sqrt(SquaredNorm(g_plus));
  const std::vector<double> products = InnerProducts(gradients, g_plus);
  for (int64_t i = 0; i < gradients.rows(); ++i) {
    const double norms = norm_plus * std::sqrt(squared_norms[i]);
    // A NaN norm is not zero: it must reach the AUC, which refuses it.
    scores[i] = norms == 0 ? 0.0f : static_cast<float>(products[i] / norms);
  }
  return scores;
}

// Rows at unit length, so that inner products are cosines at any scale of a row; a row of zeros stays.
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

// Four floats are a register of the oldest x86-64; four of them at once hide how long an addition takes. Each lane is a
// sum of its own, added in order, so that every machine gives the same.
constexpr int64_t kVector = 4;
constexpr int64_t kVectors = 4;
constexpr int64_t kLanes = kVector * kVectors;
using Vector = float __attribute__((vector_size(kVector * sizeof(float))));
using LaneCosines = std::array<float, kLanes>;

// Inner products of a row with kLanes others, given as columns: the components of one number lie side by side, and the
// sums stay in registers.
LaneCosines ProductsWithColumns(absl::Span<const float> row, const float* columns) {
  std::array<Vector, kVectors> sums = {};
  for (float component : row) {
    std::array<Vector, kVectors> column;
    std::memcpy(&column, columns, sizeof column);
    columns += kLanes;
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] += component * column[v];
    }
  }
  LaneCosines products;
  std::memcpy(&products, &sums, sizeof products);
  return products;
}

// The plane between two centres: a row lies on the second's side if <row, normal> > offset, and
// 2 (<row, normal> - offset) is the squared distance to the first less that to the second.
struct Bisector {
  std::vector<float> normal;
  double offset = 0;
};

Bisector Between(const std::vector<double>& first, const std::vector<double>& second) {
  Bisector bisector;
  bisector.normal.reserve(first.size());
  for (size_t k = 0; k < first.size(); ++k) {
    // The normal is kept in float for the fast products; a difference of two means may be too large for one.
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
    // From the mean of all, which saves a second pass over the rows.
    first[k] = (mean[k] * static_cast<double>(rows.rows()) - second[k]) / others;
    second[k] /= size;
  }
  return Between(first, second);
}

}  // namespace

HintScores::HintScores(ConstMatrixView gradients, absl::Span<const uint32_t> hint_rows)
    : hint_rows_(hint_rows.begin(), hint_rows.end()) {
  squared_norms_.reserve(gradients.rows());
  products_.reserve(gradients.rows() * hint_rows.size());
  // Distances and products of all hint attacks follow from these, so that rows are read once.
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    squared_norms_.push_back(SquaredNorm(gradients.row(j)));
    for (uint32_t hint : hint_rows) {
      products_.push_back(splitveil::InnerProduct(gradients.row(j), gradients.row(hint)));
    }
  }
}

template <typename Closeness>
std::vector<float> HintScores::Nearest(int hints, const Closeness& closeness) const {
  const size_t taken = std::min(hint_rows_.size(), static_cast<size_t>(hints));
  std::vector<float> scores(squared_norms_.size());
  for (size_t j = 0; j < scores.size(); ++j) {
    double nearest = closeness(j, 0);
    for (size_t hint = 1; hint < taken; ++hint) {
      nearest = std::max(nearest, closeness(j, hint));
    }
    scores[j] = Saturated(nearest);
  }
  return scores;
}

std::vector<float> HintScores::Distance(int hints) const {
  return Nearest(hints, [this](size_t j, size_t hint) {
    // The expansion |a|^2 + |b|^2 - 2ab can come out below 0 by rounding if two rows are almost equal.
    const double squared =
        squared_norms_[j] + squared_norms_[hint_rows_[hint]] - 2 * products_[j * hint_rows_.size() + hint];
    return -std::sqrt(std::max(0.0, squared));
  });
}

std::vector<float> HintScores::InnerProduct(int hints) const {
  return Nearest(hints, [this](size_t j, size_t hint) { return products_[j * hint_rows_.size() + hint]; });
}

std::vector<float> NormScores(ConstMatrixView gradients) { return Roots(SquaredNorms(gradients)); }

std::vector<float> CosineScores(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  return Cosines(gradients, g_plus, SquaredNorms(gradients));
}

NormAndCosineScores ScoreNormsAndCosines(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  const std::vector<double> squared_norms = SquaredNorms(gradients);
  return {Roots(squared_norms), g_plus.empty() ? std::vector<float>() : Cosines(gradients, g_plus, squared_norms)};
}

std::vector<float> InnerProductScores(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  std::vector<float> scores;
  scores.reserve(gradients.rows());
  for (double product : InnerProducts(gradients, g_plus)) {
    scores.push_back(Saturated(product));
  }
  return scores;
}

std::vector<float> ResidualNormScores(ConstMatrixView gradients, absl::Span<const float> direction) {
  std::vector<float> scores(gradients.rows());
  for (int64_t i = 0; i < gradients.rows(); ++i) {
    const absl::Span<const float> row = gradients.row(i);
    const double along = direction.empty() ? 0 : InnerProduct(row, direction);
    // Subtracted by component: the residual may be far smaller than the part along the direction.
    double squared = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double residual = direction.empty() ? row[k] : row[k] - along * direction[k];
      squared += residual * residual;
    }
    scores[i] = Saturated(std::sqrt(squared));
  }
  return scores;
}

std::vector<float> MajorityDirectionScores(ConstMatrixView gradients) {
  const int64_t rows = gradients.rows();
  // All pairs would cost the square of the batch; evenly spaced references estimate the same share.
  const int64_t references = std::min(rows, kMajorityReferences);
  const Matrix unit = UnitRows(gradients);
  std::vector<double> agreeing(rows);
  std::vector<double> cosines(rows);
  std::vector<double> others(rows, static_cast<double>(references));
  for (int64_t first = 0; first < references; first += kLanes) {
    const int64_t lanes = std::min(kLanes, references - first);
    // Transposed into columns, so that the inner loop below reads memory in order.
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
      const LaneCosines products = ProductsWithColumns(unit.row(j), columns.data());
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const bool other = reference[lane] != j;
        agreeing[j] += other && products[lane] > 0 ? 1 : 0;
        cosines[j] += other ? products[lane] : 0;
      }
    }
  }
  std::vector<float> scores(rows);
  for (int64_t j = 0; j < rows; ++j) {
    // A reference is not compared with itself, so it has one other less.
    const double counted = std::max(1.0, others[j]);
    // The mean cosine lies in [-1, 1], so a quarter of it over `counted` breaks ties without reordering unequal shares.
    scores[j] = static_cast<float>(-(agreeing[j] + cosines[j] / counted / 4) / counted);
  }
  return scores;
}

TwoMeans ClusterInTwo(ConstMatrixView rows, absl::Span<const float> direction) {
  TwoMeans clusters;
  clusters.scores.resize(rows.rows());
  // No principal direction means that all rows are equal or not finite: nothing can be told, so all scores stay 0.
  if (direction.empty()) {
    return clusters;
  }
  const std::vector<double> mean = MeanRow(rows);
  Bisector bisector;
  bisector.normal.assign(direction.begin(), direction.end());
  for (size_t k = 0; k < mean.size(); ++k) {
    bisector.offset += mean[k] * direction[k];
  }
  // Lloyd's algorithm. It starts from the principal direction, so that no random start makes two runs differ.
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
    // One cluster: the rows are equal, or not finite.
    if (second_size == 0 || second_size == static_cast<double>(rows.rows())) {
      return clusters;
    }
    if (!changed) {
      break;
    }
    bisector = BetweenMeans(rows, in_second, mean);
  }
  // The margin of the last round is the score, not the side: the AUC needs an order, and rows near the plane are
  // doubtful.
  clusters.share_along = second_size / static_cast<double>(rows.rows());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    clusters.scores[j] = Saturated(2 * margins[j]);
  }
  return clusters;
}

}  // namespace splitveil
