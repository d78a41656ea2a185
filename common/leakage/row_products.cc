#include "common/leakage/row_products.h"

#include <cstddef>
#include <cstdint>

#include "common/leakage/inner_product.h"
#include "common/matrix/vector_variants.h"

namespace splitveil {
namespace {

// Of each row with one of `others`.
template <typename Term>
inline __attribute__((always_inline)) void FillSums(const float* rows, FloatRows others, size_t count, size_t cols,
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

SPLITVEIL_VECTOR_VARIANTS void FillSquaredDistancesTo(const float* rows, const float* point, size_t count, size_t cols,
                                                      double* distances) {
  FillSums(rows, {point}, count, cols, kSquaredDifference, distances);
}

}  // namespace

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

}  // namespace splitveil
