#include "common/dataset/vocabulary.h"

#include <limits>

namespace splitveil {

bool Vocabulary::Add(absl::string_view value) {
  if (numbers_.contains(value)) {
    return true;
  }
  // Numbers of values are stored as int32 in the data.
  if (size() == std::numeric_limits<int32_t>::max()) {
    return false;
  }
  values_->bytes.append(value.data(), value.size());
  values_->ends.push_back(values_->bytes.size());
  numbers_.insert(static_cast<int32_t>(size()));
  return true;
}

}  // namespace splitveil
