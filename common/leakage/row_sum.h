// Sums of rows in double precision.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ROW_SUM_H_
#define SPLITVEIL_COMMON_LEAKAGE_ROW_SUM_H_

#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Sum of weights[j] times row j. weights: [rows]. [cols]
std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights);

// Mean row; zero for no rows. [cols]
std::vector<double> MeanRow(ConstMatrixView rows);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ROW_SUM_H_
