// Sums over each row of a batch in double precision (inner_product.h), and products of matrices in single precision:
// what most attacks spend their time on.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_
#define SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_

#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;
class Matrix;
// Sum of weights[j] times row j. weights: [rows]. [cols]
std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights);

// Mean row; zero for no rows. [cols]
std::vector<double> MeanRow(ConstMatrixView rows);

// <row, direction> of each row; `direction` [cols].
std::vector<double> InnerProducts(ConstMatrixView rows, absl::Span<const float> direction);

// <row, other's row> of each row; both of one shape.
std::vector<double> PairwiseProducts(ConstMatrixView rows, ConstMatrixView others);

// ||row||^2 of each row.
std::vector<double> SquaredNorms(ConstMatrixView rows);

// ||row - other's row||^2 of each row; both of one shape.
std::vector<double> SquaredDistances(ConstMatrixView rows, ConstMatrixView others);

// ||row - point||^2 of each row; `point` [cols].
std::vector<double> SquaredDistancesTo(ConstMatrixView rows, absl::Span<const float> point);

// Products of matrices in single precision: the work of an attack that learns from every batch.

// a b. `a` [rows, inner], `b` [inner, cols]. The same bits on every machine.
Matrix Product(ConstMatrixView a, ConstMatrixView b);

// a' b. `a` [inner, rows], `b` [inner, cols].
Matrix TransposedProduct(ConstMatrixView a, ConstMatrixView b);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_
