// The distinct values of a categorical column.
#ifndef SPLITVEIL_COMMON_DATASET_VOCABULARY_H_
#define SPLITVEIL_COMMON_DATASET_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Numbers values 1, 2, … in the order in which they are added; 0 stands for every other. Each value is stored once,
// back to back with the others, and the hash table holds numbers only: a value costs its bytes, 8 for their end, and 6
// to 12 for the table. Not thread-safe; Find alone may be called from several threads.
class Vocabulary {
 public:
  static constexpr int32_t kUnseen = 0;

  // The value's number, or kUnseen.
  int32_t Find(absl::string_view value) const {
    const auto found = numbers_.find(value);
    return found == numbers_.end() ? kUnseen : *found;
  }
  // Adds the value where it is new. False, and nothing is added, where numbers have run out.
  bool Add(absl::string_view value);

  int64_t size() const { return static_cast<int64_t>(values_->ends.size()); }
  // Value of number `number` in [1, size()]; valid until the next Add.
  absl::string_view value(int32_t number) const { return values_->at(number); }

 private:
  struct Values {
    absl::string_view at(int32_t number) const {
      const uint64_t begin = number == 1 ? 0 : ends[number - 2];
      return absl::string_view(bytes).substr(begin, ends[number - 1] - begin);
    }
    std::string bytes;
    std::vector<uint64_t> ends;
  };
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the name hash tables look for.
    size_t operator()(absl::string_view value) const { return absl::HashOf(value); }
    size_t operator()(int32_t number) const { return absl::HashOf(values->at(number)); }
    const Values* values;
  };
  struct Equal {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(int32_t a, absl::string_view b) const { return values->at(a) == b; }
    bool operator()(absl::string_view a, int32_t b) const { return (*this)(b, a); }
    const Values* values;
  };

  std::unique_ptr<Values> values_ = std::make_unique<Values>();  // At a fixed place: the set's functions point to it.
  absl::flat_hash_set<int32_t, Hash, Equal> numbers_{0, Hash{values_.get()}, Equal{values_.get()}};
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_VOCABULARY_H_
