#include "common/leakage/dense_products.h"

#include <cstdint>
#include <cstring>

#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

// Of the result, kept in registers at once.
constexpr int64_t kTileRows = 8;
constexpr int64_t kTileCols = 16;
// A row of a tile. The compiler splits it where registers are shorter.
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

SPLITVEIL_VECTOR_VARIANTS void Fill(const LeftFactor& left, int64_t inner, const float* right, int64_t rows,
                                    int64_t cols, float* out) {
  const int64_t whole_rows = rows / kTileRows * kTileRows;
  const int64_t whole_cols = cols / kTileCols * kTileCols;
  for (int64_t j = 0; j < whole_cols; j += kTileCols) {
    for (int64_t i = 0; i < whole_rows; i += kTileRows) {
      FillTile(From(left, i), inner, right + j, cols, out + i * cols + j);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j) {
      FillElement(From(left, i), inner, right + j, cols, out + i * cols + j);
    }
  }
}

}  // namespace

Matrix Product(ConstMatrixView a, ConstMatrixView b) {
  Matrix product = Matrix::ToOverwrite(a.rows(), b.cols());
  Fill({a.data(), a.cols(), 1}, a.cols(), b.data(), a.rows(), b.cols(), product.data());
  return product;
}

Matrix TransposedProduct(ConstMatrixView a, ConstMatrixView b) {
  Matrix product = Matrix::ToOverwrite(a.cols(), b.cols());
  Fill({a.data(), 1, a.cols()}, a.rows(), b.data(), a.cols(), b.cols(), product.data());
  return product;
}

}  // namespace splitveil
