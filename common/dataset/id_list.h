// A party's example ids by row, wherever they are kept.
#ifndef SPLITVEIL_COMMON_DATASET_ID_LIST_H_
#define SPLITVEIL_COMMON_DATASET_ID_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace splitveil {

// A view: what it was made of must outlive it unchanged. Thread-safe.
class IdList {
 public:
  IdList(absl::Span<const std::string> ids) : strings_(ids) {}    // NOLINT(google-explicit-constructor)
  IdList(const std::vector<std::string>& ids) : strings_(ids) {}  // NOLINT(google-explicit-constructor)
  // Ids back to back: id i is bytes [ends[i - 1], ends[i]).
  IdList(absl::Span<const uint64_t> ends, absl::string_view bytes) : ends_(ends), bytes_(bytes) {}

  size_t size() const { return strings_.size() + ends_.size(); }  // One of them is empty.
  bool empty() const { return size() == 0; }
  absl::string_view operator[](size_t row) const {
    if (!strings_.empty()) {
      return strings_[row];
    }
    const uint64_t begin = row == 0 ? 0 : ends_[row - 1];
    return bytes_.substr(begin, ends_[row] - begin);
  }

 private:
  absl::Span<const std::string> strings_;
  absl::Span<const uint64_t> ends_;
  absl::string_view bytes_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_ID_LIST_H_
