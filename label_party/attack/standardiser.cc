#include "label_party/attack/standardiser.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace splitveil {
namespace {

// Of a column's own size: rounding in float32 alone makes less.
constexpr double kLeastSpread = 1e-6;

}  // namespace

Standardiser::Standardiser(ConstMatrixView rows) {
  const auto width = static_cast<size_t>(rows.cols());
  const auto count = static_cast<double>(rows.rows());
  std::vector<double> means(width);
  std::vector<double> variances(width);
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < width; ++k) {
      means[k] += rows.row(j)[k] / count;
    }
  }
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < width; ++k) {
      const double difference = rows.row(j)[k] - means[k];
      variances[k] += difference * difference / count;
    }
  }
  for (size_t k = 0; k < width; ++k) {
    const double spread = std::sqrt(variances[k]);
    means_.push_back(static_cast<float>(means[k]));
    inverse_spreads_.push_back(spread > kLeastSpread * std::abs(means[k]) ? static_cast<float>(1 / spread) : 1);
  }
}

Matrix Standardiser::Apply(ConstMatrixView rows) const {
  if (means_.empty()) {
    return Matrix(rows);
  }
  Matrix result = Matrix::ToOverwrite(rows.rows(), rows.cols());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (size_t k = 0; k < means_.size(); ++k) {
      result.row(j)[k] = (rows.row(j)[k] - means_[k]) * inverse_spreads_[k];
    }
  }
  return result;
}

void Standardiser::BackPropagate(Matrix& gradient) const {
  for (int64_t j = 0; j < gradient.rows(); ++j) {
    for (size_t k = 0; k < inverse_spreads_.size(); ++k) {
      gradient.row(j)[k] *= inverse_spreads_[k];
    }
  }
}

}  // namespace splitveil
