#include "common/dataset/feature_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace splitveil {

FeatureTable::FeatureTable(FeatureShape shape, Matrix numeric, std::vector<int32_t> categories)
    : shape_(shape), numeric_(std::move(numeric)), categories_(std::move(categories)) {
  assert(numeric_.cols() == shape_.numeric);
  assert(static_cast<int64_t>(categories_.size()) == numeric_.rows() * shape_.categorical);
}

FeatureBatch FeatureTable::Gather(absl::Span<const uint32_t> positions) const {
  FeatureBatch batch;
  batch.rows = static_cast<int64_t>(positions.size());
  batch.numeric = Matrix(batch.rows, shape_.numeric);
  batch.categories.reserve(positions.size() * static_cast<size_t>(shape_.categorical));
  for (int64_t i = 0; i < batch.rows; ++i) {
    const int64_t position = positions[i];
    assert(position < rows());
    const absl::Span<const float> numbers = numeric_.row(position);
    std::copy(numbers.begin(), numbers.end(), batch.numeric.row(i).begin());
    const auto first = categories_.begin() + position * shape_.categorical;
    batch.categories.insert(batch.categories.end(), first, first + shape_.categorical);
  }
  return batch;
}

}  // namespace splitveil
