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
#include "deploy/operator/preparation/id_shape.h"

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

// Counts how a table's ids are written. Holds no id, but patterns and lengths of ids and hashes of words in them: at
// most IdShapes::kMaxPatterns each. Not thread-safe.
class IdSurvey {
 public:
  // `id`: not empty; blanks around it do not count. `line`: of its file, from 1.
  void Add(absl::string_view id, int64_t line);

  // Whether one id can be written in one way only. Error: InvalidArgument "TABLE: column "COLUMN": ..." with the number
  // of ids of each form and the first line of each, if numbers are written in several ways or have lost digits, or
  // accents, hyphens or the capitals of a word are, if a character is hidden inside some, and none of `forms` makes
  // them alike or is AS_WRITTEN.
  absl::Status Check(const std::string& table, const std::string& column, const std::set<v1::IdForm>& forms) const;

  // Whether the ids, if they are distinct, are 0, 1, 2, ... or 1, 2, 3, ..., in any order.
  bool NumbersRows() const;
  // Whether the ids are whole numbers that rise from row to row, or fall, in 99% of the rows: row numbers and times of
  // writing do, and those of another table belong to other rows.
  bool Ascends() const;
  // Whether all are whole numbers that seconds since 1970, or thousandths of them and so on, have from 2001 to 2033.
  bool LooksLikeTimes() const;
  // Whether all are whole numbers of which a quarter or more between the least and the greatest occurs, as of the row
  // numbers of a filtered table.
  bool IsDense() const { return AreSmall() && greatest_ - least_ < 4 * ids_; }
  // Whether all are whole numbers, be it with ".0" behind or zeros in front.
  bool AreWholeNumbers() const { return ids_ > 0 && numbers() - count(Kind::kScientific) == ids_; }
  // Whether most are numbers with fractions, which name nobody.
  bool AreMeasurements() const { return 2 * measured_ > ids_; }
  // Whether there are letters, and none is a capital.
  bool HasNoCapitals() const {
    return count(Kind::kSmall) > 0 && count(Kind::kCapitals) + count(Kind::kTitled) + count(Kind::kOddCase) == 0;
  }
  // Whether all are numbers, and some in scientific notation.
  bool HasLostDigits() const { return count(Kind::kScientific) > 0 && numbers() == ids_; }

  // AlignmentAgreement.id_shape.
  std::vector<std::string> Shape() const { return shapes_.Of(ids_); }

 private:
  static constexpr int64_t kFewIds = 10;
  enum class Kind {
    kInteger,
    kPadded,
    kWithFraction,
    kScientific,
    kComposed,
    kDecomposed,
    kSmall,     // No capitals.
    kCapitals,  // No small letters.
    kTitled,    // A capital in front of the small letters of a word at least.
    kOddCase,   // Otherwise, as random letters are.
    kHidden,    // A character inside that nobody sees: a no-break or a zero-width one.
    kHyphen,    // On every keyboard.
    kDash,      // One that looks like it: an en dash, a minus.
  };
  struct Found {
    int64_t ids = 0, first_line = 0;
  };
  void AddNumber(absl::string_view id, int64_t line);
  void AddCase(absl::string_view id, int64_t line);
  void AddSigns(absl::string_view id, int64_t line);
  void Count(Kind kind, int64_t line);
  int64_t count(Kind kind) const { return found_[static_cast<size_t>(kind)].ids; }
  // "600 with a fraction (.0), first in line 7".
  std::string Counted(Kind kind, absl::string_view words) const;
  int64_t numbers() const;
  bool AreSmall() const { return ids_ >= kFewIds && small_ == ids_ && count(Kind::kPadded) == 0; }

  int64_t ids_ = 0, measured_ = 0;
  std::array<Found, 13> found_ = {};
  size_t shortest_integer_ = 0, longest_padded_ = 0;
  int64_t least_ = 0, greatest_ = 0;               // Of whole numbers of at most 18 digits.
  int64_t small_ = 0;                              // How many these are.
  int64_t latest_ = 0, rises_ = 0;                 // The latest of them; how many are above the one before.
  absl::flat_hash_map<uint64_t, unsigned> words_;  // Ways in which a word's letters are written, by its hash.
  bool mixes_case_ = false;                        // A word is written in several.
  IdShapes shapes_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ID_FORM_H_
