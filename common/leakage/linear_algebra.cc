#include "common/leakage/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "common/matrix/matrix.h"
#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

// Rows and columns of the result that are kept in registers at once.
constexpr int64_t kTileRows = 8;
constexpr int64_t kTileCols = 16;
// A row of a tile. The compiler splits it if registers are shorter.
using TileRow = float __attribute__((vector_size(kTileCols * sizeof(float))));

// Element (row, k) of the left factor is first[row * row_stride + k * inner_stride].
struct LeftFactor {
  const float* first = nullptr;
  int64_t row_stride = 0, inner_stride = 0;
};

inline LeftFactor From(const LeftFactor& left, int64_t row) {
  return {left.first + row * left.row_stride, left.row_stride, left.inner_stride};
}

// One whole tile of the result.
inline __attribute__((always_inline)) void FillTile(const LeftFactor& left, int64_t inner, const float* right,
                                                    int64_t cols, float* out) {
  // The tile stays in registers over the whole inner loop: memory is written once per tile.
  TileRow sums[kTileRows] = {};
  for (int64_t k = 0; k < inner; ++k) {
    TileRow factors;
    std::memcpy(&factors, right + k * cols, sizeof(factors));
    const float* const column = left.first + k * left.inner_stride;
    for (int64_t i = 0; i < kTileRows; ++i) {
      sums[i] += column[i * left.row_stride] * factors;
    }
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    std::memcpy(out + i * cols, &sums[i], sizeof(TileRow));
  }
}

// What no whole tile covers.
inline __attribute__((always_inline)) void FillElement(const LeftFactor& left, int64_t inner, const float* right,
                                                       int64_t cols, float* out) {
  float sum = 0;
  for (int64_t k = 0; k < inner; ++k) {
    sum += left.first[k * left.inner_stride] * right[k * cols];
  }
  *out = sum;
}

// Each element is summed over k in order, however wide the registers are: both parties' audits must agree.
SPLITVEIL_VECTOR_VARIANTS void Fill(const LeftFactor& left, int64_t inner, const float* right, int64_t rows,
                                    int64_t cols, float* out) {
  const int64_t whole_rows = rows / kTileRows * kTileRows;
  const int64_t whole_cols = cols / kTileCols * kTileCols;
  for (int64_t j = 0; j < whole_cols; j += kTileCols) {
    for (int64_t i = 0; i < whole_rows; i += kTileRows) {
      FillTile(From(left, i), inner, right + j, cols, out + i * cols + j);
    }
  }
  // The rest at the right and at the bottom, element by element.
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) {
      FillElement(From(left, i), inner, right + j, cols, out + i * cols + j);
    }
  }
}

// In pairs, which the processor can add at the same time; the order is the same on every machine.
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

// Of each row with one of `others`.
template <typename Term>
inline __attribute__((always_inline)) void FillSums(const float* rows, RowsAt<float> others, size_t count, size_t cols,
                                                    const Term& term, double* sums) {
  constexpr size_t kRowsAtOnce = 4;
  size_t j = 0;
  for (; j + kRowsAtOnce <= count; j += kRowsAtOnce) {
    SumsOverPairs<kRowsAtOnce>({rows + j * cols, cols}, {others.first + j * others.stride, others.stride}, cols, term,
                               sums + j);
  }
  for (; j < count; ++j) {
    SumsOverPairs<1>({rows + j * cols}, {others.first + j * others.stride}, cols, term, sums + j);
  }
}

// The loops alone, on plain memory, so that each variant holds all of its work.
SPLITVEIL_VECTOR_VARIANTS void FillProducts(const float* rows, const float* direction, size_t count, size_t cols,
                                            double* products) {
  FillSums(rows, {direction}, count, cols, kProduct, products);
}

SPLITVEIL_VECTOR_VARIANTS void FillPairwiseProducts(const float* rows, const float* others, size_t count, size_t cols,
                                                    double* products) {
  FillSums(rows, {others, cols}, count, cols, kProduct, products);
}

SPLITVEIL_VECTOR_VARIANTS void FillSquaredDistances(const float* rows, const float* others, size_t count, size_t cols,
                                                    double* distances) {
  FillSums(rows, {others, cols}, count, cols, kSquaredDifference, distances);
}

// Row i of Cholesky's factor in place of the matrix's row; those before it are done. The pivot, which may be below
// `least_pivot`. Four elements at a time, whose sums over the columns before them do not wait for one another.
SPLITVEIL_VECTOR_VARIANTS double FactorRow(double* factor, size_t size, size_t i, double least_pivot) {
  constexpr size_t kAtOnce = 4;
  double* const own = factor + i * size;
  double pivot = 0;
  for (size_t first = 0; first <= i; first += kAtOnce) {
    const size_t count = std::min(kAtOnce, i + 1 - first);
    double sums[kAtOnce];
    if (count == kAtOnce) {
      SumsOverPairs<kAtOnce, double>({own}, {factor + first * size, size}, first, kProduct, sums);
    } else {
      for (size_t r = 0; r < count; ++r) {
        SumsOverPairs<1, double>({own}, {factor + (first + r) * size}, first, kProduct, &sums[r]);
      }
    }
    for (size_t r = 0; r < count; ++r) {
      const double* const other = factor + (first + r) * size;
      double rest = own[first + r] - sums[r];
      for (size_t s = first; s < first + r; ++s) {
        rest -= own[s] * other[s];
      }
      const bool is_pivot = first + r == i;
      pivot = is_pivot ? rest : pivot;
      // The least pivot keeps a nearly singular matrix from blowing rounding up.
      own[first + r] = is_pivot ? std::sqrt(std::max(rest, least_pivot)) : rest / other[first + r];
    }
  }
  return pivot;
}

SPLITVEIL_VECTOR_VARIANTS void FillSquaredDistancesTo(const float* rows, const float* point, size_t count, size_t cols,
                                                      double* distances) {
  FillSums(rows, {point}, count, cols, kSquaredDifference, distances);
}

}  // namespace

Matrix Product(ConstMatrixView a, ConstMatrixView b) {
  Matrix product = Matrix::ToOverwrite(a.rows(), b.cols());
  Fill({a.data(), a.cols(), 1}, a.cols(), b.data(), a.rows(), b.cols(), product.data());
  return product;
}

// The strides of the left factor are exchanged in place of copying its transpose.
Matrix TransposedProduct(ConstMatrixView a, ConstMatrixView b) {
  Matrix product = Matrix::ToOverwrite(a.cols(), b.cols());
  Fill({a.data(), 1, a.cols()}, a.rows(), b.data(), a.cols(), b.cols(), product.data());
  return product;
}

std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights) {
  std::vector<double> sum(rows.cols());
  AddRows(rows.data(), weights.data(), rows.rows(), rows.cols(), sum.data());
  return sum;
}

std::vector<double> MeanRow(ConstMatrixView rows) {
  const double share = 1 / static_cast<double>(std::max<int64_t>(1, rows.rows()));
  return WeightedRowSum(rows, std::vector<double>(rows.rows(), share));
}

std::vector<double> InnerProducts(ConstMatrixView rows, absl::Span<const float> direction) {
  std::vector<double> products(static_cast<size_t>(rows.rows()));
  FillProducts(rows.data(), direction.data(), products.size(), direction.size(), products.data());
  return products;
}

std::vector<double> PairwiseProducts(ConstMatrixView rows, ConstMatrixView others) {
  std::vector<double> products(static_cast<size_t>(rows.rows()));
  FillPairwiseProducts(rows.data(), others.data(), products.size(), static_cast<size_t>(rows.cols()), products.data());
  return products;
}

std::vector<double> SquaredNorms(ConstMatrixView rows) { return PairwiseProducts(rows, rows); }

std::vector<double> SquaredDistances(ConstMatrixView rows, ConstMatrixView others) {
  std::vector<double> distances(static_cast<size_t>(rows.rows()));
  const auto cols = static_cast<size_t>(rows.cols());
  FillSquaredDistances(rows.data(), others.data(), distances.size(), cols, distances.data());
  return distances;
}

std::vector<double> SquaredDistancesTo(ConstMatrixView rows, absl::Span<const float> point) {
  std::vector<double> distances(static_cast<size_t>(rows.rows()));
  FillSquaredDistancesTo(rows.data(), point.data(), distances.size(), point.size(), distances.data());
  return distances;
}

PositiveSystem::PositiveSystem(std::vector<double> matrix, int64_t size, double least_pivot)
    : factor_(std::move(matrix)), size_(size) {
  for (int64_t i = 0; i < size_; ++i) {
    (void)FactorRow(factor_.data(), static_cast<size_t>(size_), static_cast<size_t>(i), least_pivot);
  }
}

std::optional<PositiveSystem> PositiveSystem::OfProducts(ConstMatrixView rows, double ridge, double least_pivot) {
  const auto size = static_cast<size_t>(rows.rows()), cols = static_cast<size_t>(rows.cols());
  PositiveSystem system;
  system.size_ = rows.rows();
  system.factor_.resize(size * size);
  for (size_t i = 0; i < size; ++i) {
    double* const own = &system.factor_[i * size];
    FillProducts(rows.data(), rows.data() + i * cols, i + 1, cols, own);
    own[i] += ridge;
    if (!(FactorRow(system.factor_.data(), size, i, least_pivot) >= least_pivot)) {
      return std::nullopt;
    }
  }
  return system;
}

double PositiveSystem::SmallestPivot() const {
  double smallest = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < size_; ++i) {
    smallest = std::min(smallest, factor_[i * size_ + i] * factor_[i * size_ + i]);
  }
  return smallest;
}

// Forward with the factor, then backward with its transpose; all right-hand sides at once, as columns of `right`.
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
    divide(i);
    for (int64_t k = 0; k < i; ++k) {
      subtract(k, i, factor_[i * size_ + k]);  // Along the factor's row, as it lies in memory.
    }
  }
}

}  // namespace splitveil
