// Features ready for a model: numbers in [0, 1] and category indices.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_
#define SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Shape of an image; none where channels is 0.
struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t pixels() const { return channels * height * width; }
};

// Shape of a party's features. Category indices of column c lie in [offset[c], offset[c] + vocabulary[c]) of one shared
// embedding table; the first of each column stands for every value unseen in training.
struct FeatureShape {
  int64_t numeric = 0;
  int64_t categorical = 0;
  int64_t embedding_rows = 0;  // Sum of the vocabularies.
  // Where there is an image, the first image.pixels() numeric columns are its pixels, channel by channel, row by row.
  ImageShape image = {};
};

// Rows of one batch, gathered.
struct FeatureBatch {
  Matrix numeric;                   // [rows, shape.numeric]
  std::vector<int64_t> categories;  // [rows * shape.categorical], row-major, into the shared embedding table.
  int64_t rows = 0;
};

// All aligned rows of a party: row i is the example at position i of the aligned order.
class FeatureTable {
 public:
  FeatureTable(FeatureShape shape, Matrix numeric, std::vector<int32_t> categories);

  const FeatureShape& shape() const { return shape_; }
  int64_t rows() const { return numeric_.rows(); }
  // Gathers `positions`. Thread-safe.
  FeatureBatch Gather(absl::Span<const uint32_t> positions) const;

 private:
  FeatureShape shape_;
  Matrix numeric_;
  std::vector<int32_t> categories_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_
