#include "common/leakage/principal_direction.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"

namespace splitveil {
namespace {

// How many times as much a row's evidence counts as its projection.
constexpr double kEvidence = 1;
// Power iterations: without a direction to start from, and with one.
constexpr int kFirstIterations = 50;
constexpr int kIterations = 5;

double Dot(const std::vector<double>& a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    sum += a[k] * b[k];
  }
  return sum;
}

// Unit vector along `sum`; empty where it has no direction.
std::vector<float> Normalized(const std::vector<double>& sum) {
  double squared = 0;
  for (double component : sum) {
    squared += component * component;
  }
  std::vector<float> unit;
  if (squared > 0 && std::isfinite(squared)) {
    const double norm = std::sqrt(squared);
    for (double component : sum) {
      unit.push_back(static_cast<float>(component / norm));
    }
  }
  return unit;
}

// From the mean to the row farthest from it: a start that no principal direction of interest is orthogonal to.
std::vector<float> TowardsFarthest(ConstMatrixView rows, const std::vector<double>& mean) {
  const std::vector<float> centre(mean.begin(), mean.end());
  const double centre_squared = SquaredNorm(centre);
  int64_t farthest = 0;
  double largest = -1;
  for (int64_t j = 0; j < rows.rows(); ++j) {
    const double squared = SquaredNorm(rows.row(j)) - 2 * InnerProduct(rows.row(j), centre) + centre_squared;
    if (squared > largest) {
      largest = squared;
      farthest = j;
    }
  }
  std::vector<double> offset(mean.size());
  for (size_t k = 0; k < mean.size() && rows.rows() > 0; ++k) {
    offset[k] = rows.row(farthest)[k] - mean[k];
  }
  return Normalized(offset);
}

std::vector<double> Projections(ConstMatrixView rows, const std::vector<double>& mean,
                                absl::Span<const float> direction) {
  const double centre = Dot(mean, direction);
  std::vector<double> projections = InnerProducts(rows, direction);
  for (double& projection : projections) {
    projection -= centre;
  }
  return projections;
}

double SumOfSquares(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) {
    sum += value * value;
  }
  return sum;
}

// Third standardised moment of values of mean 0, times their number; 0 where they do not vary.
double SkewVote(const std::vector<double>& values) {
  double cubes = 0;
  for (double value : values) {
    cubes += value * value * value;
  }
  const double count = static_cast<double>(values.size());
  const double deviation = std::sqrt(SumOfSquares(values) / count);
  return deviation > 0 ? cubes / (deviation * deviation * deviation) : 0;
}

}  // namespace

std::vector<double> PrincipalDirection::Project(ConstMatrixView rows, absl::Span<const float> evidence) {
  const std::vector<double> mean = MeanRow(rows);
  const bool first = static_cast<int64_t>(direction_.size()) != rows.cols();
  const std::vector<float> remembered = first ? std::vector<float>() : direction_;
  std::vector<float> direction = first ? TowardsFarthest(rows, mean) : remembered;
  if (direction.empty()) {
    return std::vector<double>(rows.rows());
  }
  std::vector<double> projections = Projections(rows, mean, direction);
  const double cumulative_weight = first ? 0 : memory_ * SumOfSquares(projections);
  for (int i = 0; i < (first ? kFirstIterations : kIterations); ++i) {
    // The rows' scatter times the direction; the remembered direction adds its own scatter of rank one.
    std::vector<double> weights = projections;
    const double deviation = std::sqrt(SumOfSquares(projections) / static_cast<double>(weights.size()));
    for (size_t j = 0; j < evidence.size(); ++j) {
      weights[j] += kEvidence * deviation * evidence[j];
    }
    std::vector<double> next = WeightedRowSum(rows, weights);
    double alignment = 0;
    for (size_t k = 0; k < remembered.size(); ++k) {
      alignment += static_cast<double>(remembered[k]) * direction[k];
    }
    for (size_t k = 0; k < remembered.size(); ++k) {
      next[k] += cumulative_weight * alignment * remembered[k];
    }
    std::vector<float> turned = Normalized(next);
    if (turned.empty()) {
      return std::vector<double>(rows.rows());
    }
    const double change = 1 - InnerProduct(turned, direction);
    direction = std::move(turned);
    projections = Projections(rows, mean, direction);
    constexpr double kSettled = 1e-7;
    if (change < kSettled) {
      break;
    }
  }
  // A line has no sign; power iteration keeps that of its start, which is the remembered direction.
  direction_ = std::move(direction);
  votes_ += SkewVote(projections);
  return projections;
}

}  // namespace splitveil
