// Products of matrices in single precision: the work of an attack that learns from every batch.
#ifndef SPLITVEIL_COMMON_LEAKAGE_DENSE_PRODUCTS_H_
#define SPLITVEIL_COMMON_LEAKAGE_DENSE_PRODUCTS_H_

#include "common/matrix/matrix.h"

namespace splitveil {

// a b. `a` [rows, inner], `b` [inner, cols]. The same bits on every machine.
Matrix Product(ConstMatrixView a, ConstMatrixView b);

// a' b. `a` [inner, rows], `b` [inner, cols].
Matrix TransposedProduct(ConstMatrixView a, ConstMatrixView b);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_DENSE_PRODUCTS_H_
