#include "common/leakage/row_products.h"

#include <cstddef>
#include <cstdint>

#include "common/leakage/inner_product.h"
#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

// The loops alone, on plain memory, so that each variant holds all of its work.
SPLITVEIL_VECTOR_VARIANTS void FillProducts(const float* rows, const float* direction, size_t count, size_t cols,
                                            double* products) {
  for (size_t j = 0; j < count; ++j) {
    products[j] = InnerProduct({rows + j * cols, cols}, {direction, cols});
  }
}

SPLITVEIL_VECTOR_VARIANTS void FillSquaredNorms(const float* rows, size_t count, size_t cols, double* norms) {
  for (size_t j = 0; j < count; ++j) {
    norms[j] = SquaredNorm({rows + j * cols, cols});
  }
}

// `stride`: from one of `others` to the next; 0: all one.
SPLITVEIL_VECTOR_VARIANTS void FillSquaredDistances(const float* rows, const float* others, size_t stride, size_t count,
                                                    size_t cols, double* distances) {
  for (size_t j = 0; j < count; ++j) {
    distances[j] = SquaredDistance({rows + j * cols, cols}, {others + j * stride, cols});
  }
}

}  // namespace

std::vector<double> InnerProducts(ConstMatrixView rows, absl::Span<const float> direction) {
  std::vector<double> products(static_cast<size_t>(rows.rows()));
  FillProducts(rows.data(), direction.data(), products.size(), direction.size(), products.data());
  return products;
}

std::vector<double> SquaredNorms(ConstMatrixView rows) {
  std::vector<double> norms(static_cast<size_t>(rows.rows()));
  FillSquaredNorms(rows.data(), norms.size(), static_cast<size_t>(rows.cols()), norms.data());
  return norms;
}

std::vector<double> SquaredDistances(ConstMatrixView rows, ConstMatrixView others) {
  std::vector<double> distances(static_cast<size_t>(rows.rows()));
  const auto cols = static_cast<size_t>(rows.cols());
  FillSquaredDistances(rows.data(), others.data(), cols, distances.size(), cols, distances.data());
  return distances;
}

std::vector<double> SquaredDistancesTo(ConstMatrixView rows, absl::Span<const float> point) {
  std::vector<double> distances(static_cast<size_t>(rows.rows()));
  FillSquaredDistances(rows.data(), point.data(), 0, distances.size(), point.size(), distances.data());
  return distances;
}

}  // namespace splitveil
