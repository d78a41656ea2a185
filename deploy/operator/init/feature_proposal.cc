#include "deploy/operator/init/feature_proposal.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr double kMostlyNumbers = 0.9;
constexpr double kHalfNumbers = 0.5;
constexpr double kMostlyDates = 0.5;
constexpr int64_t kFewCodes = 10;
constexpr size_t kMaxMissingWords = 4;
constexpr int64_t kMinRepeats = 3;

std::string Missing(const ColumnProfile& column, int64_t missing) {
  return missing == 0 ? ""
                      : absl::StrFormat(", %.1f%% missing",
                                        100.0 * static_cast<double>(missing) / static_cast<double>(column.rows()));
}

// "12 distinct, 3.0% missing".
std::string Distinct(const ColumnProfile& column) {
  return absl::StrCat(column.distinct_is_exact() ? "" : "about ", column.distinct(), " distinct",
                      Missing(column, column.rows() - column.texts()));
}

// Whether the texts among the numbers seem to stand for missing: few, each repeated, without digits. Among few codes
// they are codes themselves; an infinity is known.
bool AreMissingWords(const ColumnProfile& column) {
  const auto words = column.words();
  if (!words.has_value() || words->empty() || words->size() > kMaxMissingWords || column.dates() > 0 ||
      column.form(CellForm::kOddDigits).rows > 0) {
    return false;
  }
  const bool codes = column.form(CellForm::kInteger).rows == column.numbers() &&
                     column.distinct() <= kFewCodes + static_cast<int64_t>(words->size());
  return !codes && std::all_of(words->begin(), words->end(), [](const auto& word) {
    const std::string lower = absl::AsciiStrToLower(word.first);
    return word.second.rows >= kMinRepeats && word.first.find_first_of("0123456789") == std::string::npos &&
           !absl::StrContains(lower, "inf");
  });
}

std::string Share(const ColumnProfile& column, int64_t rows) {
  return absl::StrFormat("%.2g%% of the rows", 100.0 * static_cast<double>(rows) / static_cast<double>(column.rows()));
}

// Takes what seems to stand for missing out of the numbers, with a warning each.
std::string AddMissing(const ColumnProfile& column, bool words, Schema::Column& into,
                       std::vector<std::string>& warnings) {
  const auto take = [&](const std::string& text, const std::string& why) {
    into.add_missing(text);
    warnings.push_back(absl::StrCat("column \"", column.name(), "\": \"", text, "\" ", why,
                                    ": the schema takes it for missing; if it is a value, remove missing: \"", text,
                                    "\" from the column and run `splitveil prepare`"));
  };
  for (const auto& [word, found] : words ? *column.words() : std::map<std::string, Occurrences>()) {
    take(word, absl::StrCat("stands among numbers in ", Share(column, found.rows)));
  }
  for (const UnknownNumber& unknown : column.unknowns(into.decimal() == Schema::COMMA)) {
    take(unknown.text, absl::StrCat("in ", Share(column, unknown.rows), " (", unknown.why, ") seems to mean unknown"));
  }
  return into.missing().empty() ? "" : absl::StrCat(", ", into.missing_size(), " taken for missing, see below");
}

// That numbers were expected, of a column with other texts.
absl::Status NotNumbers(const std::string& path, const ColumnProfile& column) {
  const Occurrences& digits = column.form(CellForm::kOddDigits);
  const Occurrences& texts = column.form(CellForm::kText);
  const int64_t others = column.texts() - column.numbers();
  const int64_t line = digits.rows > 0      ? digits.first_line
                       : texts.rows > 0     ? texts.first_line
                       : column.dates() > 0 ? column.form(CellForm::kDate).first_line
                                            : column.form(CellForm::kUnit).first_line;
  return Unclear(
      path, column.name(),
      absl::StrCat("expected numbers, found a different text in ", others, " of ", column.rows(),
                   " rows, first in line ", line,
                   digits.rows > 0 ? " (digits that are no known form of a number: write them otherwise)" : "",
                   "; --missing=TEXT says that it stands for a missing value, --categorical keeps the "
                   "column as texts, --ignore leaves it out"));
}

// The same of a column that is not wholly one of dates, codes or numbers.
absl::StatusOr<std::string> AddMixed(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                     Schema::Column& into) {
  const std::string distinct = Distinct(column);
  const auto share = static_cast<double>(column.numbers() + column.form(CellForm::kOddDigits).rows) /
                     static_cast<double>(std::max<int64_t>(column.texts(), 1));
  if (absl::c_linear_search(flags.numeric, column.name()) || share >= kMostlyNumbers ||
      (share >= kHalfNumbers && column.distinct() > static_cast<int64_t>(ColumnProfile::kMaxTexts))) {
    return NotNumbers(path, column);
  }
  // A vocabulary of texts that occur once each has no row to learn from.
  const bool free_text = 2 * column.distinct() > column.texts();
  into.set_kind(free_text ? Schema::IGNORE : Schema::CATEGORICAL);
  return free_text ? absl::StrCat("texts that hardly repeat, ", distinct, "; --categorical keeps it")
                   : absl::StrCat("texts, ", distinct);
}

}  // namespace

absl::Status Unclear(const std::string& path, absl::string_view column, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", column.empty() ? "" : absl::StrCat("column \"", column, "\": "), problem));
}

bool IsOfDates(const ColumnProfile& column) {
  return static_cast<double>(column.dates()) > kMostlyDates * static_cast<double>(column.texts());
}

bool MayLeaveOut(int64_t rows, const ColumnProfile& column, const SchemaFlags& flags) {
  return rows == 0 ||
         (flags.skip_bad_rows && static_cast<double>(rows) <= kOddLineShare * static_cast<double>(column.rows()));
}

std::string LeftOut(int64_t rows) {
  return rows == 0 ? "" : absl::StrCat("; rows with another text, which --skip_bad_rows leaves out: ", rows);
}

Decimals DecimalsOf(const ProfiledTable& table, const SchemaFlags& flags) {
  const auto& columns = table.profile.columns;
  return {flags.decimal.empty()      ? '\0'
          : flags.decimal == "comma" ? ','
                                     : '.',
          std::any_of(columns.begin(), columns.end(), [](const ColumnProfile& column) {
            return column.comma_only().rows > 0 && column.point_only().rows == 0;
          })};
}

absl::StatusOr<std::string> AddFormat(const std::string& path, const ColumnProfile& column, const Decimals& decimals,
                                      Schema::Column& into) {
  const FormatFinding finding = FindFormat(column, decimals.given, decimals.comma_elsewhere);
  if (!finding.problem.empty()) {
    return Unclear(path, column.name(),
                   absl::StrCat("expected numbers that are written alike, found ", finding.problem,
                                "; --categorical keeps the column as texts, --ignore leaves it out"));
  }
  std::string words;
  if (finding.format.decimal_comma) {
    into.set_decimal(Schema::COMMA);
    words = ", decimal comma";
  }
  if (finding.format.thousands != 0) {
    into.set_thousands(std::string(1, finding.format.thousands));
    absl::StrAppend(&words, ", thousands \"", into.thousands(), "\"");
  }
  for (const std::string& unit : finding.format.strip) {
    into.add_strip(unit);
    absl::StrAppend(&words, ", without \"", unit, "\"");
  }
  return words;
}

absl::StatusOr<std::string> AddFeature(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                       const Decimals& decimals, Schema::Column& into,
                                       std::vector<std::string>& warnings) {
  const int64_t others = column.texts() - column.numbers();
  const bool says_numeric = absl::c_linear_search(flags.numeric, column.name());
  const std::string distinct = Distinct(column);
  if (absl::c_linear_search(flags.ignore, column.name())) {
    into.set_kind(Schema::IGNORE);
    return std::string("as --ignore says");
  }
  if (absl::c_linear_search(flags.categorical, column.name())) {
    into.set_kind(Schema::CATEGORICAL);
    return absl::StrCat("as --categorical says; ", distinct);
  }
  if (column.distinct() < 2) {
    // That it is there or not tells something; a constant does not, and scaling it divides by nothing.
    const bool flag = column.distinct() == 1 && column.texts() < column.rows();
    into.set_kind(flag ? Schema::CATEGORICAL : Schema::IGNORE);
    return flag ? absl::StrCat("a flag: one value or none, ", distinct)
                : std::string("one value at most: it tells nothing");
  }
  if (IsOfDates(column) && !says_numeric) {
    // Nearly a name of the row, and as a category every later one is unseen.
    into.set_kind(Schema::IGNORE);
    return absl::StrCat("dates, ", distinct,
                        "; for a split by time (test_after) set kind TIME in the schema file, --categorical keeps it");
  }
  // 007 and 7 are different codes, and one number.
  if (others == 0 && column.padded() > 0 && !says_numeric) {
    into.set_kind(Schema::CATEGORICAL);
    return absl::StrCat("codes, as some have zeros in front, ", distinct);
  }
  const bool mostly = static_cast<double>(column.numbers()) >= kHalfNumbers * static_cast<double>(column.texts());
  const bool words = mostly && others > 0 && AreMissingWords(column);
  if (column.numbers() == 0 || !(words || MayLeaveOut(others, column, flags))) {
    return AddMixed(path, column, flags, into);
  }
  into.set_kind(Schema::NUMERIC);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string format, AddFormat(path, column, decimals, into));
  const bool codes = column.integers() == column.numbers() && column.distinct() <= kFewCodes;
  const std::string missing = AddMissing(column, words, into, warnings);
  return absl::StrCat("numbers, ", distinct, format, missing, codes ? "; --categorical where they are codes" : "",
                      words ? "" : LeftOut(others));
}

}  // namespace splitveil
