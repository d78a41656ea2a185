// Features as a model takes them: numbers, category indices and images.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURES_H_
#define SPLITVEIL_COMMON_DATASET_FEATURES_H_

#include <cstdint>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {

// Shape of an image; none where channels is 0.
struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t pixels() const { return channels * height * width; }
};

// Shape of a party's features. All categorical columns share one embedding table.
struct FeatureShape {
  int64_t numeric = 0;
  int64_t categorical = 0;
  int64_t embedding_rows = 0;  // Every category index is below.
  // Where there is an image, the first image.pixels() numeric columns are its pixels, channel by channel, row by row.
  ImageShape image = {};
};

// Rows of one batch, gathered.
struct FeatureBatch {
  Matrix numeric;                   // [rows, shape.numeric]
  std::vector<int64_t> categories;  // [rows * shape.categorical], row-major, into the shared embedding table.
  int64_t rows = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_FEATURES_H_
