// How ids are written: the forms that both parties give them, and what the ids of a table look like.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_FORM_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_FORM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/id_form.pb.h"

namespace splitveil {

// Gives ids the agreed forms (id_form.proto). Not thread-safe.
class IdNormalForm {
 public:
  explicit IdNormalForm(std::set<v1::IdForm> forms) : forms_(std::move(forms)) {}

  // `id` without blanks around it and in every form; borrows from `id`, or from this until the next call. Nullopt if a
  // form needs UTF-8 and `id` is different text.
  std::optional<absl::string_view> Of(absl::string_view id);

 private:
  std::set<v1::IdForm> forms_;
  std::string text_;
};

// The distinct forms in a field of forms.
template <typename Repeated>
std::set<v1::IdForm> FormsIn(const Repeated& field) {
  std::set<v1::IdForm> forms;
  for (const int form : field) {
    forms.insert(static_cast<v1::IdForm>(form));
  }
  return forms;
}

// Counts how a table's ids are written. Holds no id, but patterns and lengths of ids: at most kMaxPatterns. Not
// thread-safe.
class IdSurvey {
 public:
  static constexpr size_t kMaxPatterns = 256;

  // `id`: not empty; blanks around it do not count. `line`: of its file, from 1.
  void Add(absl::string_view id, int64_t line);

  // Whether one id can be written in one way only. Error: InvalidArgument "TABLE: column "COLUMN": ..." with the number
  // of ids of each form and the first line of each, if numbers are written in several ways or have lost digits, or
  // accents are, and none of `forms` makes them alike or is AS_WRITTEN.
  absl::Status Check(const std::string& table, const std::string& column, const std::set<v1::IdForm>& forms) const;

  // Whether the ids, if they are distinct, are 0, 1, 2, ... or 1, 2, 3, ..., in any order.
  bool NumbersRows() const;
  // Whether all are whole numbers, be it with ".0" behind or zeros in front.
  bool AreWholeNumbers() const { return ids_ > 0 && numbers() - count(Kind::kScientific) == ids_; }
  // Whether all are numbers, and some in scientific notation.
  bool HasLostDigits() const { return ids_ > 0 && numbers() == ids_ && count(Kind::kScientific) > 0; }

  // AlignmentAgreement.id_shape.
  std::vector<std::string> Shape() const;

 private:
  enum class Kind { kInteger, kPadded, kWithFraction, kScientific, kComposed, kDecomposed };
  struct Found {
    int64_t ids = 0, first_line = 0;
  };
  // Consecutive letters and digits.
  struct Run {
    unsigned kinds = 0;  // Bits of kKindMarks.
    size_t shortest = 0, longest = 0;
  };
  struct Pattern {
    int64_t ids = 0;
    std::vector<Run> runs;
  };

  void AddNumber(absl::string_view id, int64_t line);
  void AddPattern(absl::string_view id, bool decomposed);
  void Count(Kind kind, int64_t line);
  int64_t count(Kind kind) const { return found_[static_cast<size_t>(kind)].ids; }
  // "600 with a fraction (.0), first in line 7".
  std::string Counted(Kind kind, absl::string_view words) const;
  int64_t numbers() const;

  int64_t ids_ = 0;
  std::array<Found, 6> found_ = {};
  size_t shortest_integer_ = 0, longest_padded_ = 0;
  int64_t least_ = 0, greatest_ = 0;                    // Of whole numbers of at most 18 digits.
  int64_t small_ = 0;                                   // How many these are.
  absl::flat_hash_map<std::string, Pattern> patterns_;  // By punctuation and case of the letters.
};

// What the proposal in `alignment` says of its party's ids, against this party's own: a warning for people, or "" if
// they look alike or nothing is stated. Shows columns' names and shapes.
std::string DescribeIdDifference(const v1::AlignmentAgreement& alignment, const std::string& column,
                                 const std::vector<std::string>& shape);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_FORM_H_
