// The shape of a party's features, apart from features.h: what only needs the shape does not depend on matrices.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURE_SHAPE_H_
#define SPLITVEIL_COMMON_DATASET_FEATURE_SHAPE_H_

#include <cstdint>

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_FEATURE_SHAPE_H_
