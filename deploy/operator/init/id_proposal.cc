#include "deploy/operator/init/id_proposal.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr const char* kIdWords[] = {"id", "ids", "uuid", "guid"};
constexpr const char* kPersons[] = {"customer", "cust",   "client",  "user",  "member", "account", "acct",
                                    "patient",  "person", "subject", "kunde", "email",  "msisdn",  "iban"};
constexpr const char* kBehindPersons[] = {"no", "nr", "num", "number", "code", "key", "ref", "hash", "email"};
constexpr double kNamedShare = 0.5, kIdShare = 1 - kOddLineShare;  // Of distinct cells.

// "customerNo_v2" as customer, no, v2.
std::vector<std::string> WordsOf(const std::string& name) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < name.size(); ++i) {
    const bool begins = i > 0 && absl::ascii_isupper(name[i]) && absl::ascii_islower(name[i - 1]);
    if ((begins || !absl::ascii_isalnum(name[i])) && !words.back().empty()) {
      words.emplace_back();
    }
    if (absl::ascii_isalnum(name[i])) {
      words.back() += absl::ascii_tolower(name[i]);
    }
  }
  words.resize(words.back().empty() ? words.size() - 1 : words.size());
  return words;
}

bool IsNamedLikeId(const std::string& name) {
  const std::vector<std::string> words = WordsOf(name);
  if (words.empty()) {
    return false;
  }
  const auto is_id = [](const std::string& word) {
    return absl::c_linear_search(kIdWords, word) ||
           absl::c_any_of(kPersons, [&](absl::string_view person) { return word == absl::StrCat(person, "id"); });
  };
  return absl::c_any_of(words, is_id) || words.back() == "key" ||
         (absl::c_linear_search(kPersons, words.front()) &&
          (words.size() == 1 || (words.size() == 2 && absl::c_linear_search(kBehindPersons, words.back()))));
}

// "customer", "kundeId", but not "id", which a database counts for itself.
bool IsNamedAfterPeople(const std::string& name) {
  return absl::c_any_of(WordsOf(name), [](const std::string& word) {
    return absl::c_any_of(kPersons, [&](absl::string_view person) { return absl::StartsWith(word, person); });
  });
}

std::string Lines(const Occurrences& found) {
  return absl::StrCat(found.rows > 1 ? "in lines " : "in line ", found.first_line,
                      found.rows > 2   ? " to "
                      : found.rows > 1 ? " and "
                                       : "",
                      found.rows > 1 ? absl::StrCat(found.last_line) : "");
}

// "1 of 3000 cells repeats an earlier one, in line 17; 2 are empty, in lines 5 and 9".
std::string Faults(const ColumnProfile& column) {
  std::vector<std::string> faults;
  if (const int64_t repeats = column.texts() - column.distinct(); column.repeated().rows > 0) {
    faults.push_back(absl::StrCat(column.distinct_is_exact() ? "" : "about ", std::max<int64_t>(repeats, 1),
                                  " repeat an earlier one, ", Lines(column.repeated())));
  }
  if (column.gaps().rows > 0) {
    faults.push_back(absl::StrCat(column.gaps().rows, " have none, ", Lines(column.gaps())));
  }
  return absl::StrCat("of ", column.rows(), " cells ", absl::StrJoin(faults, "; "));
}

struct Candidate {
  const ColumnProfile* column;
  bool is_named;      // Like an id.
  std::string doubt;  // Why it is not taken; empty: it may be.

  bool is_unique() const { return column->names_rows(); }
  bool is_near() const {
    const double share = static_cast<double>(column->distinct()) / static_cast<double>(column->rows());
    return !is_unique() && share >= kIdShare;
  }
};

// Why a column of which all cells differ may be no id.
std::string DoubtOf(const ColumnProfile& column) {
  const IdSurvey& ids = column.ids();
  // Customers are often numbered, and sorted by that.
  const bool may_count = !IsNamedAfterPeople(column.name());
  return ids.NumbersRows() ? "only counts the rows: 1, 2, 3, ... name different rows in another table"
         : may_count && ids.Ascends()
             ? "has whole numbers in ascending or descending order, as row numbers and times have"
         : may_count && ids.LooksLikeTimes() ? "has whole numbers that look like times"
         : may_count && ids.IsDense()        ? "has whole numbers close to each other, as row numbers are"
         : IsOfDates(column)                 ? "has dates"
         : column.numbers() != column.integers() && !ids.AreWholeNumbers() ? "has numbers with fractions"
                                                                           : "";
}

// Columns that are an id or nearly one.
std::vector<Candidate> FindCandidates(const ProfiledTable& table, const SchemaFlags& flags) {
  std::vector<Candidate> candidates;
  for (const ColumnProfile& column : table.profile.columns) {
    const bool is_used = column.name() == flags.label || column.name() == flags.group || column.name() == flags.time ||
                         absl::c_linear_search(flags.categorical, column.name()) ||
                         absl::c_linear_search(flags.numeric, column.name()) ||
                         absl::c_linear_search(flags.ignore, column.name());
    Candidate candidate{&column, IsNamedLikeId(column.name()), ""};
    const double share = static_cast<double>(column.distinct()) / static_cast<double>(column.rows());
    // Measurements and dates may all differ by chance.
    const bool is_measured =
        IsOfDates(column) || (column.numbers() != column.integers() && !column.ids().AreWholeNumbers());
    if (is_used || share < (candidate.is_named ? kNamedShare : kIdShare) || (is_measured && !candidate.is_named)) {
      continue;
    }
    candidate.doubt = candidate.is_unique() ? DoubtOf(column) : Faults(column);
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Whether `other` may be the id rather than `chosen`, whose cells all differ.
bool MayBeRather(const Candidate& other, const Candidate& chosen) {
  return !other.doubt.empty() &&
         (chosen.is_named ? other.is_named && other.is_near() : other.is_named || other.is_near());
}

// What to say of each, and how to go on.
absl::Status NoClearId(const std::string& path, absl::string_view problem, const std::vector<Candidate>& candidates) {
  std::string text(problem);
  std::string repeated;
  for (const Candidate& candidate : candidates) {
    absl::StrAppend(&text, "; \"", candidate.column->name(), "\" ",
                    candidate.doubt.empty() ? "has a different value in each row" : candidate.doubt);
    if (!candidate.is_unique() && repeated.empty()) {
      repeated = candidate.column->name();
    }
  }
  return Unclear(path, "",
                 absl::StrCat(text, ". Set --id=COLUMN to the one whose values are the same people's in both tables",
                              repeated.empty() ? ""
                                               : absl::StrCat("; --id=", repeated,
                                                              " --skip_bad_rows leaves out rows without an id, and all "
                                                              "but the first row of one")));
}

// Rounded ids may be alike, so they need not name the rows any more; but amounts may be rounded, too.
absl::Status CheckLostDigits(const std::string& path, const ProfiledTable& table, bool has_candidates) {
  for (const ColumnProfile& column : table.profile.columns) {
    if (column.ids().HasLostDigits() && (!has_candidates || IsNamedLikeId(column.name()))) {
      SPLITVEIL_RETURN_IF_ERROR(column.ids().Check(path, column.name(), {}));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckGivenId(const std::string& path, const ColumnProfile& column,
                                         const SchemaFlags& flags) {
  SPLITVEIL_RETURN_IF_ERROR(column.ids().HasLostDigits() ? column.ids().Check(path, flags.id, {}) : absl::OkStatus());
  if (column.names_rows() || MayLeaveOut(std::max<int64_t>(column.rows() - column.distinct(), 1), column, flags)) {
    return flags.id;
  }
  return Unclear(path, flags.id,
                 absl::StrCat("expected an id, another one in each row, found ", column.distinct(),
                              " distinct ones in ", column.rows(), " rows: ", Faults(column),
                              "; --id names another column, --skip_bad_rows leaves them out, up to 5% of the rows or "
                              "as --min_usable_share says"));
}

}  // namespace

absl::StatusOr<std::string> FindId(const std::string& path, const ProfiledTable& table, const SchemaFlags& flags) {
  if (!flags.id.empty()) {
    return CheckGivenId(path, *FindColumn(table, flags.id), flags);
  }
  const std::vector<Candidate> candidates = FindCandidates(table, flags);
  std::vector<Candidate> clear;
  absl::c_copy_if(candidates, std::back_inserter(clear), [](const Candidate& one) {
    return one.doubt.empty() && one.column->numbers() == one.column->integers();
  });
  if (clear.empty()) {  // Unless a program has made measurements of whole numbers: 100000.0.
    absl::c_copy_if(candidates, std::back_inserter(clear), [](const Candidate& one) { return one.doubt.empty(); });
  }
  if (clear.size() > 1) {
    std::vector<std::string> names;
    absl::c_transform(clear, std::back_inserter(names), [](const Candidate& one) { return one.column->name(); });
    return Unclear(path, "",
                   absl::StrCat(clear.size(), " columns have a different value in each row: ", QuotedNames(names),
                                ". Set --id=COLUMN to the one that is the id"));
  }
  if (clear.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckLostDigits(path, table, !candidates.empty()));
    return NoClearId(path,
                     absl::StrCat("no column has a different id in each row",
                                  candidates.empty() ? ", among " + QuotedNames(table.layout.names) : ""),
                     candidates);
  }
  std::vector<Candidate> others;
  absl::c_copy_if(candidates, std::back_inserter(others),
                  [&](const Candidate& other) { return MayBeRather(other, clear.front()); });
  if (others.empty()) {
    return clear.front().column->name();
  }
  others.push_back(clear.front());
  return NoClearId(path, "cannot tell which column is the id", others);
}

absl::StatusOr<std::set<v1::IdForm>> FindIdForms(const std::string& path, const ColumnProfile& column,
                                                 const SchemaFlags& flags) {
  std::set<v1::IdForm> forms = flags.id_form;
  if (forms.empty() && !flags.keeps_id_form) {
    forms = {v1::UNICODE_NFC};
    SPLITVEIL_RETURN_IF_ERROR(column.ids().Check(path, column.name(), forms));
    if (column.ids().AreWholeNumbers()) {
      forms.insert(v1::INTEGER);
    }
    if (column.ids().HasNoCapitals()) {
      forms.insert(v1::CASE_FOLD);
    }
  }
  const absl::Status fits = column.ids().Check(path, column.name(), forms);
  return fits.ok() ? absl::StatusOr<std::set<v1::IdForm>>(std::move(forms)) : fits;
}

}  // namespace splitveil
