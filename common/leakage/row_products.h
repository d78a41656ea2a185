// Sums over each row of a batch, in double precision as inner_product.h has them: what most attacks spend their time
// on.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_
#define SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_

#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class Matrix;

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ROW_PRODUCTS_H_
