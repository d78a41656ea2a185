#include "deploy/operator/preparation/column_profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

constexpr size_t kMaxUnits = 8;
constexpr size_t kMaxUnknowns = 3;  // At one end of a column.
constexpr int64_t kMinOthers = 10;  // Distinct numbers that remain.
constexpr int64_t kMinCodes = 2;
constexpr double kFewRows = 0.0005;   // Share of the rows from which on a number repeats...
constexpr int64_t kMinRows = 3;       // ...and the least.
constexpr double kFarForNines = 0.5;  // In ranges of all other numbers.
constexpr double kFar = 1;

// The shortest text that reads back as the number.
std::string NumberText(double number) {
  for (const int digits : {6, 15, 17}) {
    std::string text = absl::StrFormat("%.*g", digits, number);
    double read = 0;
    if ((digits > 6 || !absl::StrContains(text, 'e')) && ReadNumber(text, {}, read) && read == number) {
      return text;
    }
  }
  return absl::StrFormat("%.17g", number);
}

// At least so many digits, and none but 9.
bool IsNines(double number, size_t digits) {
  const std::string text = absl::StrFormat("%.10g", std::abs(number));
  return text.size() >= digits && std::all_of(text.begin(), text.end(), [](char c) { return c == '9' || c == '.'; });
}

// One end of a column: ascending numbers, negated if it is the upper end.
struct End {
  const std::vector<Extremes::Extreme>& numbers;
  double farthest;  // The other end.
  int64_t distinct, rows;
  bool negated;
};

// How many of the first numbers seem to mean "unknown", and why.
size_t CountUnknowns(const End& end, const char*& why) {
  const auto enough = std::max<int64_t>(kMinRows, static_cast<int64_t>(kFewRows * static_cast<double>(end.rows)));
  bool nines = true, minus_one = true;
  for (size_t count = 1; count <= kMaxUnknowns && count < end.numbers.size(); ++count) {
    const Extremes::Extreme& last = end.numbers[count - 1];
    const int64_t others = end.distinct - static_cast<int64_t>(count);
    // Among few numbers all may be codes, but for 999 and the like.
    if (last.rows < enough || last.number == 0 || others < (IsNines(last.number, 3) ? kMinCodes : kMinOthers)) {
      return 0;
    }
    nines = nines && IsNines(last.number, 2);
    minus_one = count == 1 && last.number == -1;
    const double next = end.numbers[count].number;
    const double gap = next / 2 - last.number / 2, range = end.farthest / 2 - next / 2;
    if (!end.negated && next >= 0 && (minus_one || nines)) {
      why = minus_one ? "-1 among numbers from 0 on" : "nines among numbers from 0 on";
      return count;
    }
    // What most rows have is the usual number, unless it is one that people write for none.
    const bool usual = 2 * last.rows > end.rows && !nines;
    if ((gap > kFar * range && !usual) || (nines && gap > kFarForNines * range)) {
      why = nines ? "nines, far from all others" : "repeats, far from all others";
      return count;
    }
  }
  return 0;
}

}  // namespace

CellScan ColumnProfile::Scan(absl::string_view cell) const {
  CellScan scan = ScanCell(cell);
  if (declared_.format.has_value()) {
    // As the table is read, whatever else the cell might be.
    double number = 0;
    const bool is_number = ReadNumber(cell, *declared_.format, number);
    scan.form = is_number && scan.form >= CellForm::kDate   ? CellForm::kUnit
                : !is_number && scan.form < CellForm::kDate ? CellForm::kOddDigits
                                                            : scan.form;
    scan.as_point = scan.as_comma = is_number ? number : std::numeric_limits<double>::quiet_NaN();
  }
  return scan;
}

bool ColumnProfile::IsMissing(absl::string_view cell, const CellScan& scan) const {
  const auto has = [](const auto& list, const auto& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  return has(declared_.missing, cell) || has(declared_.missing_numbers, scan.as_point) ||
         (!declared_.format.has_value() && scan.form == CellForm::kText && MeansMissing(cell));
}

void ColumnProfile::AddId(absl::string_view cell, int64_t line) {
  if (texts() <= kSurveyedTexts || distinct_.repeats() == 0 || ids_.HasLostDigits()) {
    ids_.Add(cell, line);
  }
}

void ColumnProfile::Add(absl::string_view cell, int64_t line) {
  ++rows_;
  if (cell.empty()) {
    ++empty_;
    return;
  }
  const uint64_t hash = HashText(cell);
  if (!known_.empty()) {
    if (const auto found = known_.find(hash); found != known_.end()) {
      if (!found->second.missing) {
        distinct_.AddRepeat();
        AddId(cell, line);
      }
      AddKnown(line, found->second);
      return;
    }
  }
  const CellScan scan = Scan(cell);
  const bool missing = IsMissing(cell, scan);
  if (!missing) {
    AddId(cell, line);
  }
  if (keeps_texts_ || missing) {
    Known& known = known_[hash];
    known.text = std::string(cell);
    known.unit = std::string(scan.unit);
    known.scan = scan;
    known.missing = missing;
    AddKnown(line, known);
    if (!missing) {
      distinct_.Add(hash);
      if (distinct_.estimate() > static_cast<int64_t>(kMaxTexts)) {
        ForgetTexts();
      }
    }
    return;
  }
  distinct_.Add(hash);
  AddScan(scan, line);
  if (scan.form == CellForm::kText && words_.has_value()) {
    (*words_)[std::string(cell)].Add(line);
    words_ = words_->size() > kMaxWords ? std::nullopt : std::move(words_);
  }
}

void ColumnProfile::AddKnown(int64_t line, Known& known) {
  if (known.missing) {
    ++marked_;
    ++markers_[known.text];
    return;
  }
  known.found.Add(line);
  known.scan.unit = known.unit;
  AddScan(known.scan, line);
}

void ColumnProfile::ForgetTexts() {
  words_ = words();
  keeps_texts_ = false;
  absl::erase_if(known_, [](const auto& entry) { return !entry.second.missing; });
}

std::optional<std::map<std::string, Occurrences>> ColumnProfile::words() const {
  if (!keeps_texts_) {
    return words_;
  }
  std::map<std::string, Occurrences> words;
  for (const auto& [hash, known] : known_) {
    if (!known.missing && known.scan.form == CellForm::kText) {
      words.emplace(known.text, known.found);
    }
  }
  return words.size() > kMaxWords ? std::nullopt : std::optional(std::move(words));
}

void ColumnProfile::AddScan(const CellScan& scan, int64_t line) {
  forms_[static_cast<size_t>(scan.form)].Add(line);
  if (scan.form < CellForm::kDate) {
    AddNumber(scan, line);
  }
}

void ColumnProfile::AddNumber(const CellScan& scan, int64_t line) {
  const bool point = !std::isnan(scan.as_point), comma = !std::isnan(scan.as_comma);
  padded_ += scan.padded ? 1 : 0;
  has_long_integer_ = has_long_integer_ || (scan.form == CellForm::kInteger && std::abs(scan.as_point) >= 1000);
  if (point && comma && scan.as_point == scan.as_comma) {
    integers_ += scan.as_point == std::floor(scan.as_point) ? 1 : 0;
  }
  if (!scan.unit.empty() && (units_.size() < kMaxUnits || units_.count(std::string(scan.unit)) > 0)) {
    units_[std::string(scan.unit)].Add(line);
  }
  has_word_unit_ = has_word_unit_ || !(scan.unit.empty() || IsKnownUnit(scan.unit));
  if (scan.point_thousands != 0) {
    thousands_[0][scan.point_thousands].Add(line);
  }
  if (scan.comma_thousands != 0) {
    thousands_[1][scan.comma_thousands].Add(line);
  }
  if (scan.as_point != scan.as_comma && comma && scan.point_thousands == ',') {
    comma_group_.Add(line);
  }
  if (point != comma) {
    (point ? point_only_ : comma_only_).Add(line);
  }
  // As long as all numbers read alike there is one sample of them; with numbers of both kinds neither is of use.
  if (comma && scan.as_comma != scan.as_point && comma_values_ == nullptr && point_only_.rows == 0) {
    comma_values_ = std::make_shared<Values>(values_);
  }
  if (point && comma_only_.rows == 0) {
    values_.Add(scan.as_point);
  }
  if (comma && comma_values_ != nullptr && point_only_.rows == 0) {
    comma_values_->Add(scan.as_comma);
  }
}

std::map<std::string, Occurrences> ColumnProfile::counts() const {
  std::map<std::string, Occurrences> counts;
  for (const auto& [hash, known] : known_) {
    if (!known.missing) {
      counts.emplace(known.text, known.found);
    }
  }
  return counts;
}

std::vector<UnknownNumber> ColumnProfile::unknowns(bool decimal_comma) const {
  const Extremes& ends = extremes(decimal_comma);
  const auto& least = ends.least();
  const auto& greatest = ends.negated_greatest();
  std::vector<UnknownNumber> found;
  if (least.empty()) {
    return found;
  }
  const auto words = static_cast<int64_t>(this->words().value_or(std::map<std::string, Occurrences>()).size());
  const char* why_lower = "";
  const char* why_upper = "";
  size_t at_lower = 0, at_upper = 0;
  // Each end is measured by the numbers without what the other end is suspected of.
  for (int round = 0; round < 2; ++round) {
    const int64_t distinct = this->distinct() - words;
    at_lower = CountUnknowns(
        {least, -greatest[at_upper].number, distinct - static_cast<int64_t>(at_upper), numbers(), false}, why_lower);
    at_upper = CountUnknowns(
        {greatest, -least[at_lower].number, distinct - static_cast<int64_t>(at_lower), numbers(), true}, why_upper);
  }
  for (size_t i = 0; i < at_lower; ++i) {
    found.push_back({NumberText(least[i].number), least[i].rows, why_lower});
  }
  for (size_t i = 0; i < at_upper; ++i) {
    found.push_back({NumberText(-greatest[i].number), greatest[i].rows, why_upper});
  }
  return found;
}

namespace {

std::string At(const char* form, const Occurrences& found) {
  return absl::StrCat(form, " in ", found.rows, " rows, first in line ", found.first_line);
}

// More than one unit, or a percent sign at some numbers alone.
std::string UnitProblem(const ColumnProfile& column) {
  std::string list;
  for (const auto& [unit, found] : column.units()) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", At(absl::StrCat("\"", unit, "\"").c_str(), found));
  }
  if (column.units().size() > 1) {
    return absl::StrCat("numbers with different units (", list,
                        "); strip: \"UNIT\" in the schema, once for each, drops them");
  }
  const bool some_percent =
      column.form(CellForm::kPercent).rows > 0 && column.form(CellForm::kPercent).rows < column.numbers();
  return some_percent ? absl::StrCat("a percent sign at some numbers and none at others (", list,
                                     "); strip: \"%\" in the schema drops it")
                      : "";
}

}  // namespace

FormatFinding FindFormat(const ColumnProfile& column, char decimal, bool comma_elsewhere) {
  FormatFinding finding;
  const Occurrences& point = column.point_only();
  const Occurrences& comma = column.comma_only();
  const Occurrences& either = column.comma_group();
  if (point.rows > 0 && comma.rows > 0) {
    finding.problem =
        absl::StrCat("numbers with a decimal point (", At("", point).substr(1), ") and with a decimal comma (",
                     At("", comma).substr(1), "); write one of them otherwise");
    return finding;
  }
  if (point.rows == 0 && comma.rows == 0 && either.rows > 0 && decimal == 0) {
    finding.problem = absl::StrCat(At("numbers such as 1,234", either),
                                   ", which may be 1234 or 1.234: --decimal=point (thousands: \",\" in the schema) or "
                                   "--decimal=comma (decimal: COMMA) says which");
    return finding;
  }
  const auto& grouped = column.thousands(/*decimal_comma=*/true);
  if (point.rows == 0 && comma.rows == 0 && decimal == 0 && grouped.count('.') > 0 &&
      (comma_elsewhere || !column.has_long_integer())) {
    finding.problem = absl::StrCat(At("numbers such as 1.234", grouped.at('.')),
                                   ", which may be 1.234 or 1234: --decimal=point or --decimal=comma (decimal: COMMA "
                                   "thousands: \".\" in the schema) says which");
    return finding;
  }
  finding.format.decimal_comma = comma.rows > 0 || (point.rows == 0 && decimal == ',');
  const auto& thousands = column.thousands(finding.format.decimal_comma);
  if (thousands.size() > 1) {
    finding.problem = absl::StrCat("thousands separated by different signs (", At("one", thousands.begin()->second),
                                   ", ", At("another", std::next(thousands.begin())->second), "); write them alike");
    return finding;
  }
  finding.format.thousands = thousands.empty() ? '\0' : thousands.begin()->first;
  finding.problem = UnitProblem(column);
  for (const auto& [unit, found] : column.units()) {
    finding.format.strip.push_back(unit);
  }
  finding.readable = column.numbers();
  return finding;
}

std::vector<std::string> ProfileWarnings(const v1::TableSchema& schema, const TableProfile& profile) {
  std::vector<std::string> warnings;
  for (int i = 0; i < schema.columns_size(); ++i) {
    const ColumnProfile& column = profile.columns[static_cast<size_t>(i)];
    if (schema.columns(i).kind() != v1::TableSchema::NUMERIC) {
      continue;
    }
    std::string values, lines;
    for (const UnknownNumber& unknown : column.unknowns(/*decimal_comma=*/false)) {
      absl::StrAppendFormat(&values, "%s%s in %.2g%% of the rows (%s)", values.empty() ? "" : ", ", unknown.text,
                            100.0 * static_cast<double>(unknown.rows) / static_cast<double>(column.rows()),
                            unknown.why);
      absl::StrAppend(&lines, lines.empty() ? "" : " ", "missing: \"", unknown.text, "\"");
    }
    if (!values.empty()) {
      warnings.push_back(absl::StrCat("column \"", column.name(), "\": ", values,
                                      ": if this stands for a number that is not known, add ", lines,
                                      " to the column in the schema"));
    }
  }
  return warnings;
}

}  // namespace splitveil
