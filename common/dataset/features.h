// The features of a batch as a model takes them: numbers, category indices and images.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURES_H_
#define SPLITVEIL_COMMON_DATASET_FEATURES_H_

#include <cstdint>
#include <vector>

#include "common/dataset/feature_shape.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Rows of one batch, gathered.
struct FeatureBatch {
  Matrix numeric;                   // [rows, shape.numeric]
  std::vector<int64_t> categories;  // [rows * shape.categorical], row-major, into the shared embedding table.
  // [rows * columns], row-major: sensitive attributes of these rows, each the number of a value or kUnknownAttribute;
  // no features, and no bottom model reads them. Empty if the data have none.
  std::vector<uint8_t> attributes;
  int64_t rows = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_FEATURES_H_
