#include "common/leakage/row_sum.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace splitveil {

std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights) {
  std::vector<double> sum(rows.cols());
  double* const out = sum.data();
  const int64_t cols = rows.cols();
  // Four rows at a time: the sums are loaded and stored once for the four.
  int64_t j = 0;
  for (; j + 4 <= rows.rows(); j += 4) {
    const float* const a = rows.row(j).data();
    const float* const b = rows.row(j + 1).data();
    const float* const c = rows.row(j + 2).data();
    const float* const d = rows.row(j + 3).data();
    for (int64_t k = 0; k < cols; ++k) {
      out[k] += (weights[j] * a[k] + weights[j + 1] * b[k]) + (weights[j + 2] * c[k] + weights[j + 3] * d[k]);
    }
  }
  for (; j < rows.rows(); ++j) {
    for (int64_t k = 0; k < cols; ++k) {
      out[k] += weights[j] * rows.row(j)[k];
    }
  }
  return sum;
}

std::vector<double> MeanRow(ConstMatrixView rows) {
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, rows.rows()));
  return WeightedRowSum(rows, std::vector<double>(rows.rows(), share));
}

}  // namespace splitveil
