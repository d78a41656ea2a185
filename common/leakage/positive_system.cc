#include "common/leakage/positive_system.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace splitveil {

PositiveSystem::PositiveSystem(std::vector<double> matrix, int64_t size, double least_pivot)
    : factor_(std::move(matrix)), size_(size) {
  for (int64_t i = 0; i < size_; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double rest = factor_[i * size_ + j];
      for (int64_t k = 0; k < j; ++k) {
        rest -= factor_[i * size_ + k] * factor_[j * size_ + k];
      }
      factor_[i * size_ + j] = i == j ? std::sqrt(std::max(rest, least_pivot)) : rest / factor_[j * size_ + j];
    }
  }
}

void PositiveSystem::Solve(std::vector<double>& right, int64_t columns) const {
  const auto subtract = [&](int64_t from, int64_t other, double weight) {
    for (int64_t t = 0; t < columns; ++t) {
      right[from * columns + t] -= weight * right[other * columns + t];
    }
  };
  const auto divide = [&](int64_t i) {
    for (int64_t t = 0; t < columns; ++t) {
      right[i * columns + t] /= factor_[i * size_ + i];
    }
  };
  for (int64_t i = 0; i < size_; ++i) {
    for (int64_t k = 0; k < i; ++k) {
      subtract(i, k, factor_[i * size_ + k]);
    }
    divide(i);
  }
  for (int64_t i = size_; i-- > 0;) {
    for (int64_t k = i + 1; k < size_; ++k) {
      subtract(i, k, factor_[k * size_ + i]);
    }
    divide(i);
  }
}

}  // namespace splitveil
