#include "deploy/operator/init/feature_proposal.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

constexpr double kMostlyNumbers = 0.9;
constexpr double kHalfNumbers = 0.5;
constexpr double kMostlyDates = 0.5;
constexpr int64_t kFewCodes = 10;
constexpr int64_t kRepeatsOfCodes = 5;  // Rows of one, on average.
constexpr size_t kMaxMissingWords = 4, kFewUnits = 4;
constexpr int64_t kMinRepeats = 3;
// Of groups such as persons: how many there are, and how many rows each has.
constexpr int64_t kMinGroups = 50, kMaxGroupRows = 20;
constexpr double kMaxGroupShare = 0.95;  // Of the rows: with more, hardly any repeats.
constexpr double kLeastNumber = 1000;
constexpr const char* kNumberWords[] = {"id", "nbr", "nr", "no", "num", "number", "key"};
constexpr const char* kSomebodies[] = {"customer", "patient", "person",    "user",    "member",
                                       "client",   "subject", "household", "account", "device"};

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

// Whether a column's name ends as one of numbers that stand for somebody: patient_nbr, CustomerID, userid, member.
bool NamesSomebody(const std::string& name) {
  size_t last = name.size();  // Where its last word begins.
  while (last > 0 && absl::ascii_isalpha(name[last - 1]) &&
         !(last < name.size() && absl::ascii_islower(name[last - 1]) && absl::ascii_isupper(name[last]))) {
    --last;
  }
  const std::string word = absl::AsciiStrToLower(name.substr(last));
  const auto is = [&](const char* other) { return word == other; };
  const auto is_number_of = [&](const char* somebody) { return word == absl::StrCat(somebody, "id"); };
  return absl::c_any_of(kNumberWords, is) || absl::c_any_of(kSomebodies, is) ||
         absl::c_any_of(kSomebodies, is_number_of);
}

// Takes what seems to stand for missing out of the numbers, with a warning.
std::string AddMissing(const ColumnProfile& column, bool words, Schema::Column& into, FeatureWarnings& warnings) {
  std::vector<std::string> whys;
  const auto take = [&](const std::string& text, const std::string& why) {
    into.add_missing(text);
    warnings.texts.push_back(text);
    whys.push_back(absl::StrCat("\"", text, "\" ", why));
  };
  for (const auto& [word, found] : words ? *column.words() : std::map<std::string, Occurrences>()) {
    take(word, absl::StrCat("stands among numbers in ", Share(column, found.rows)));
  }
  for (const UnknownNumber& unknown : column.unknowns(into.decimal() == Schema::COMMA)) {
    take(unknown.text, absl::StrCat("in ", Share(column, unknown.rows), " (", unknown.why, ") seems to mean unknown"));
  }
  if (!whys.empty()) {
    warnings.taken.push_back(absl::StrCat("column \"", column.name(), "\": ", absl::StrJoin(whys, ", ")));
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

// Whether most cells are fractions, durations or ratios, and not all times of day: 51/80, 53:07. What repeats is a
// code.
bool AreOfParts(const ColumnProfile& column) {
  return column.parts().rows > 0 && kRepeatsOfCodes * column.distinct() > column.texts() &&
         static_cast<double>(column.parts().rows + column.times_of_day()) >=
             kMostlyNumbers * static_cast<double>(column.texts());
}

// The same of a column that is not wholly one of dates, codes or numbers.
absl::StatusOr<std::string> AddMixed(const std::string& path, const ColumnProfile& column, const SchemaFlags& flags,
                                     Schema::Column& into, FeatureWarnings& warnings) {
  const std::string distinct = Distinct(column);
  const auto share = static_cast<double>(column.numbers() + column.form(CellForm::kOddDigits).rows) /
                     static_cast<double>(std::max<int64_t>(column.texts(), 1));
  const bool codes = column.numbers() == 0 && column.distinct() <= kFewCodes;  // 6+, 12+, 18+.
  if (absl::c_linear_search(flags.numeric, column.name()) || (share >= kMostlyNumbers && !codes) ||
      (share >= kHalfNumbers && column.distinct() > static_cast<int64_t>(ColumnProfile::kMaxTexts))) {
    return NotNumbers(path, column);
  }
  if (AreOfParts(column)) {
    return Unclear(
        path, column.name(),
        absl::StrCat("expected numbers or codes, found several numbers with / or : between them in ",
                     column.parts().rows, " of ", column.rows(), " rows, first in line ", column.parts().first_line,
                     ", which hardly repeat: write one number instead (a duration in seconds, a fraction "
                     "as 0.5, a pair in two columns), or --categorical keeps the column as texts, --ignore "
                     "leaves it out (kind: CATEGORICAL or IGNORE in the schema)"));
  }
  // A vocabulary of texts that occur once each has no row to learn from.
  const bool free_text = 2 * column.distinct() > column.texts();
  // Few words are units, and many are streets: 12 Elm, 7 Oak.
  if (column.units().size() < kFewUnits &&
      static_cast<double>(column.word_rows()) >= kMostlyNumbers * static_cast<double>(column.texts())) {
    warnings.others.push_back(
        absl::StrCat("column \"", column.name(), "\": numbers with different words behind them in ", column.word_rows(),
                     " of ", column.rows(), " rows are no numbers: if the words are units, convert them to one"));
  }
  into.set_kind(free_text ? Schema::IGNORE : Schema::CATEGORICAL);
  return free_text ? absl::StrCat("texts that hardly repeat, ", distinct, "; --categorical keeps it")
                   : absl::StrCat("texts, ", distinct);
}

}  // namespace

absl::Status Unclear(const std::string& path, absl::string_view column, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", column.empty() ? "" : absl::StrCat("column \"", column, "\": "), problem));
}

std::vector<std::string> FeatureWarnings::Lines() const {
  std::vector<std::string> lines = others;
  if (!taken.empty()) {
    lines.push_back(absl::StrCat(absl::StrJoin(taken, "; "), ": the schema takes ",
                                 texts.size() == 1 ? "it for missing; if it is a value, remove missing: \""
                                                   : "them for missing; if one is a value, remove such as missing: \"",
                                 texts.front(), "\" from ", taken.size() == 1 ? "the" : "its",
                                 " column and run `splitveil prepare`"));
  }
  return lines;
}

bool IsOfDates(const ColumnProfile& column) {
  return static_cast<double>(column.dates()) > kMostlyDates * static_cast<double>(column.texts());
}

bool LooksLikeGroup(const ColumnProfile& column, bool named) {
  const int64_t rows = column.rows(), distinct = column.distinct();
  const bool codes = column.numbers() == 0 || column.integers() == column.texts();
  if (column.texts() < rows || column.dates() > 0 || !codes || distinct < kMinGroups ||
      distinct < rows / kMaxGroupRows || static_cast<double>(distinct) > kMaxGroupShare * static_cast<double>(rows)) {
    return false;
  }
  if (named) {
    return NamesSomebody(column.name());
  }
  if (column.numbers() == 0) {
    return false;
  }
  const double least = column.extremes(false).least().front().number;
  const double greatest = -column.extremes(false).negated_greatest().front().number;
  return least >= kLeastNumber && std::floor(std::log10(least)) == std::floor(std::log10(greatest));
}

bool MayLeaveOut(int64_t rows, const ColumnProfile& column, const SchemaFlags& flags) {
  return rows == 0 || (flags.skip_bad_rows && static_cast<double>(column.rows() - rows) >=
                                                  flags.min_usable_share * static_cast<double>(column.rows()));
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
                                       const Decimals& decimals, Schema::Column& into, FeatureWarnings& warnings) {
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
    return absl::StrCat("dates, ", distinct, "; --time with --test_after splits by it, --categorical keeps it");
  }
  // As a feature it would let the model know a person again, in the test part too.
  if (LooksLikeGroup(column, /*named=*/true) && !says_numeric) {
    into.set_kind(Schema::IGNORE);
    return absl::StrCat("repeats as the number of a person does, ", distinct,
                        "; --group keeps a person's rows on one side of the split if the other table has it too, "
                        "--categorical or --numeric keeps it");
  }
  // 007 and 7 are different codes, and one number.
  if (others == 0 && column.padded() > 0 && !says_numeric) {
    into.set_kind(Schema::CATEGORICAL);
    return absl::StrCat("codes, as some have zeros in front, ", distinct);
  }
  const bool mostly = static_cast<double>(column.numbers()) >= kHalfNumbers * static_cast<double>(column.texts());
  const bool words = mostly && others > 0 && AreMissingWords(column);
  if (column.numbers() == 0 || !(words || MayLeaveOut(others, column, flags))) {
    return AddMixed(path, column, flags, into, warnings);
  }
  into.set_kind(Schema::NUMERIC);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string format, AddFormat(path, column, decimals, into));
  if (const std::string units = DescribeUnits(column); !units.empty()) {
    warnings.others.push_back(
        absl::StrCat("column \"", column.name(), "\": ", units, ": all are read as the bare numbers"));
  }
  const bool codes = column.integers() == column.numbers() && column.distinct() <= kFewCodes;
  const std::string missing = AddMissing(column, words, into, warnings);
  return absl::StrCat("numbers, ", distinct, format, missing, codes ? "; --categorical where they are codes" : "",
                      LooksLikeGroup(column, /*named=*/false) ? "; --group if they number persons, --ignore if they "
                                                                "name places"
                                                              : "",
                      words ? "" : LeftOut(others));
}

}  // namespace splitveil
