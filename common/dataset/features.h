// The features of a batch as a model takes them: numbers, category indices and images.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURES_H_
#define SPLITVEIL_COMMON_DATASET_FEATURES_H_

#include <cstdint>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {

// Shape of an image; none if channels is 0.
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
  // If there is an image, the first image.pixels() numeric columns are its pixels, channel by channel, row by row.
  ImageShape image = {};
};

// Number of the value of a sensitive attribute that is not known.
inline constexpr uint8_t kUnknownAttribute = 255;

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
