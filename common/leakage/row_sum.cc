#include "common/leakage/row_sum.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

SPLITVEIL_VECTOR_VARIANTS void AddRows(const float* rows, const double* weights, int64_t count, int64_t cols,
                                       double* out) {
  // Four rows at a time: the sums are loaded and stored once for the four.
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* const a = rows + j * cols;
    const float* const b = a + cols;
    const float* const c = b + cols;
    const float* const d = c + cols;
    for (int64_t k = 0; k < cols; ++k) {
      out[k] += (weights[j] * a[k] + weights[j + 1] * b[k]) + (weights[j + 2] * c[k] + weights[j + 3] * d[k]);
    }
  }
  for (; j < count; ++j) {
    for (int64_t k = 0; k < cols; ++k) {
      out[k] += weights[j] * rows[j * cols + k];
    }
  }
}

}  // namespace

std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights) {
  std::vector<double> sum(rows.cols());
  AddRows(rows.data(), weights.data(), rows.rows(), rows.cols(), sum.data());
  return sum;
}

std::vector<double> MeanRow(ConstMatrixView rows) {
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, rows.rows()));
  return WeightedRowSum(rows, std::vector<double>(rows.rows(), share));
}

}  // namespace splitveil
