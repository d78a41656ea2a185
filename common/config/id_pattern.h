// The agreed pattern of ids, and rows of a table that share a mistake.
#ifndef SPLITVEIL_COMMON_CONFIG_ID_PATTERN_H_
#define SPLITVEIL_COMMON_CONFIG_ID_PATTERN_H_

#include <cstdint>
#include <memory>
#include <re2/re2.h>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Rows with one mistake: how many, and where the first are. Holds no cell.
class FaultyRows {
 public:
  void Add(int64_t place) {
    ++rows_;
    if (places_.size() < kShown) {
      places_.push_back(place);
    }
  }
  bool any() const { return rows_ > 0; }
  // InvalidArgument "TABLE: 3 rows WHAT (line 4, 7, 9)". `unit`: what places count.
  absl::Status Error(const std::string& table, absl::string_view what, absl::string_view unit = "line") const;

 private:
  static constexpr size_t kShown = 5;
  int64_t rows_ = 0;
  std::vector<int64_t> places_;
};

// AlignmentAgreement.id_pattern of one column. Not thread-safe.
class IdPattern {
 public:
  // `pattern`: RE2 (https://github.com/google/re2/wiki/Syntax); "" describes every id. Error: InvalidArgument with what
  // RE2 says of it.
  static absl::StatusOr<IdPattern> Create(const std::string& pattern);

  // Counts `id` if the pattern does not describe all of it. Texts that are not UTF-8 fit no pattern.
  void Add(absl::string_view id, int64_t place);
  // Whether the pattern describes every id so far. Error: FaultyRows::Error, with the pattern.
  absl::Status Check(const std::string& table, absl::string_view unit = "line") const;

 private:
  std::unique_ptr<RE2> expression_;  // Null: any.
  FaultyRows faulty_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_ID_PATTERN_H_
