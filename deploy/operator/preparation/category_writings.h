// Categories that are one value in several writings.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CATEGORY_WRITINGS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CATEGORY_WRITINGS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

#include "common/dataset/vocabulary.h"

namespace splitveil {

// A decimal number, such as 3.0 or 3.50, in its shortest writing; "" if `text` is none, or has zeros in front, as codes
// do.
std::string PlainestWriting(absl::string_view text);

// Values of a vocabulary in any writing: without regard to capitals, blanks, what no eye sees, how accents are stored,
// and zeros in front of or behind a number. Nothing is known of a vocabulary of more than kMaxValues. 8 to 20 bytes a
// value. Thread-safe.
class KnownWritings {
 public:
  static constexpr int64_t kMaxValues = 1'000'000;
  explicit KnownWritings(const Vocabulary& vocabulary);
  bool Has(absl::string_view text) const;

 private:
  absl::flat_hash_set<uint64_t> hashes_;
};

// How many of the column's values differ from a more frequent one only in what KnownWritings disregards, but for zeros
// in front, which codes have on purpose: a warning for people that shows none of them; "" if none does. `rows_of`: rows
// of a value by its number; `rows`: all rows with a value.
std::string DescribeTwins(const std::string& column, const Vocabulary& vocabulary,
                          absl::FunctionRef<int64_t(int32_t)> rows_of, int64_t rows);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CATEGORY_WRITINGS_H_
