#include "deploy/operator/preparation/column_profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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
constexpr double kMuchClipped = 0.01, kWideRange = 20;  // Of targets.

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
  // A number that stands for "unknown" repeats; an outlier is alone.
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
    // Prices: 9.99, 99.99, 999.99.
    if (nines && IsNines(next, 2) && last.number != std::floor(last.number) && next != std::floor(next)) {
      return 0;
    }
    // A scale from -1 on has each of its numbers, and -1 about as often as the next.
    if (minus_one && next == 0 && end.farthest - last.number + 1 == static_cast<double>(end.distinct) &&
        last.rows <= 2 * end.numbers[count].rows && end.numbers[count].rows <= 2 * last.rows) {
      return 0;
    }
    // Halves, as the difference of two doubles may overflow.
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

std::string NumberText(double number) {
  // The shortest text that reads as the same double: 17 digits always do.
  for (const int digits : {6, 15, 17}) {
    std::string text = absl::StrFormat("%.*g", digits, number);
    double read = 0;
    if ((digits > 6 || !absl::StrContains(text, 'e')) && ReadNumber(text, {}, read) && read == number) {
      return text;
    }
  }
  return absl::StrFormat("%.17g", number);
}

CellScan ColumnProfile::Scan(absl::string_view cell) const {
  CellScan scan = ScanCell(cell);
  if (declared_.format.has_value()) {
    // As the table is read, whatever else the cell might be.
    double number = 0;
    const bool is_number = ReadNumber(cell, *declared_.format, number);
    // A declared format decides: what looks like a date but reads as a number counts as one, and the other way round.
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
  if (declared_.missing.empty() && declared_.missing_numbers.empty() && scan.form != CellForm::kText) {
    return false;  // Nearly every number.
  }
  return has(declared_.missing, cell) || has(declared_.missing_numbers, scan.as_point) ||
         (!declared_.format.has_value() && scan.form == CellForm::kText && MeansMissing(cell));
}

void ColumnProfile::AddId(absl::string_view cell, int64_t line) {
  if (texts() <= kSurveyedTexts || (distinct_.repeats() == 0 && !ids_.AreMeasurements()) || ids_.HasLostDigits()) {
    ids_.Add(cell, line);
  }
}

void ColumnProfile::Add(absl::string_view cell, int64_t line) {
  ++rows_;
  if (cell.empty()) {
    ++empty_;
    gaps_.Add(line);
    return;
  }
  const uint64_t hash = HashText(cell);
  if (!known_.empty()) {
    // Texts that repeat are scanned once: most cells of most columns.
    if (const auto found = known_.find(hash); found != known_.end()) {
      if (!found->second.missing) {
        distinct_.AddRepeat();
        repeated_.Add(line);
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
    // A copy: the scan borrows the cell, which is gone with the next line.
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
  const int64_t repeats = distinct_.repeats();
  distinct_.Add(hash);
  if (distinct_.repeats() > repeats) {
    repeated_.Add(line);
  }
  AddScan(scan, line);
  if (scan.form == CellForm::kText && words_.has_value()) {
    (*words_)[std::string(cell)].Add(line);
    words_ = words_->size() > kMaxWords ? std::nullopt : std::move(words_);
  }
}

void ColumnProfile::AddKnown(int64_t line, Known& known) {
  if (known.missing) {
    ++marked_;
    gaps_.Add(line);
    ++markers_[known.text];
    return;
  }
  known.found.Add(line);
  known.scan.unit = known.unit;
  AddScan(known.scan, line);
}

void ColumnProfile::ForgetTexts() {
  // From here on only what is no number is kept, as long as it is little: categories or a few stray words.
  words_ = words();
  keeps_texts_ = false;
  // Markers stay known: they are few, and how often each occurs is part of the proposal.
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
  times_of_day_ += scan.time_of_day ? 1 : 0;
  if (scan.parts) {
    parts_.Add(line);
  }
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
  // A single such cell decides for the whole column: 1.5 cannot have a decimal comma.
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

}  // namespace

std::string DescribeUnits(const ColumnProfile& column) {
  std::string list;
  for (const auto& [unit, found] : column.units()) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", At(absl::StrCat("\"", unit, "\"").c_str(), found));
  }
  const auto& units = column.units();
  return units.size() > 1 ? absl::StrCat("numbers with different units (", list, ")")
         : units.size() == 1 && units.begin()->second.rows < column.numbers()
             ? absl::StrCat(units.count("%") > 0 ? "a percent sign" : "a unit", " at some numbers and none at others (",
                            list, ")")
             : "";
}

FormatFinding FindFormat(const ColumnProfile& column, char decimal, bool comma_elsewhere) {
  FormatFinding finding;
  const Occurrences& point = column.point_only();
  const Occurrences& comma = column.comma_only();
  const Occurrences& either = column.comma_group();
  // Either reading would turn some numbers into others a thousand times as large.
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
  // What the cells prove counts before what the user says of the table as a whole.
  finding.format.decimal_comma = comma.rows > 0 || (point.rows == 0 && decimal == ',');
  const auto& thousands = column.thousands(finding.format.decimal_comma);
  if (thousands.size() > 1) {
    finding.problem = absl::StrCat("thousands separated by different signs (", At("one", thousands.begin()->second),
                                   ", ", At("another", std::next(thousands.begin())->second), "); write them alike");
    return finding;
  }
  finding.format.thousands = thousands.empty() ? '\0' : thousands.begin()->first;
  if (column.units().size() > 1 || column.units().count("%") > 0) {
    finding.problem = DescribeUnits(column);
    absl::StrAppend(&finding.problem, finding.problem.empty() ? "" : "; convert them to one, or write them alike");
  }
  for (const auto& [unit, found] : column.units()) {
    finding.format.strip.push_back(unit);
  }
  finding.readable = column.numbers();
  return finding;
}

namespace {

// What is said of numbers that seem to mean "unknown", up to how to go on; "" if there are none. `lines`: for the
// schema.
std::string UnknownNumbers(const ColumnProfile& column, bool decimal_comma, std::string& lines) {
  std::string values;
  for (const UnknownNumber& unknown : column.unknowns(decimal_comma)) {
    absl::StrAppendFormat(&values, "%s%s in %.2g%% of the rows (%s)", values.empty() ? "" : ", ", unknown.text,
                          100.0 * static_cast<double>(unknown.rows) / static_cast<double>(column.rows()), unknown.why);
    absl::StrAppend(&lines, lines.empty() ? "" : " ", "missing: \"", unknown.text, "\"");
  }
  return values.empty() ? "" : absl::StrCat("column \"", column.name(), "\": ", values);
}

}  // namespace

double ClippedShare(const ColumnProfile& column, bool decimal_comma, double minimum, double maximum) {
  const std::vector<double>& numbers = column.sample(decimal_comma).numbers();
  const auto beyond = std::count_if(numbers.begin(), numbers.end(),
                                    [&](double number) { return number < minimum || number > maximum; });
  return numbers.empty() ? 0 : static_cast<double>(beyond) / static_cast<double>(numbers.size());
}

std::vector<std::string> TargetWarnings(const ColumnProfile& column, bool decimal_comma, double minimum,
                                        double maximum) {
  std::vector<std::string> warnings;
  std::string lines;
  if (const std::string unknown = UnknownNumbers(column, decimal_comma, lines); !unknown.empty()) {
    warnings.push_back(absl::StrCat(unknown, ": if this stands for a target that is not known, add ", lines,
                                    " to the column in the schema, and --skip_bad_rows leaves these rows out"));
  }
  const double clipped = ClippedShare(column, decimal_comma, minimum, maximum);
  if (clipped > kMuchClipped) {
    warnings.push_back(absl::StrFormat(
        "column \"%s\": %.1f%% of the targets lie beyond the range from %g to %g and are clipped to it: "
        "set target_minimum and target_maximum so that they fit",
        column.name(), 100 * clipped, minimum, maximum));
  }
  const NumberSample& sample = column.sample(decimal_comma);
  const double inner = sample.Quantile(0.99) - sample.Quantile(0.01);
  if (inner > 0 && maximum - minimum >= kWideRange * inner) {
    warnings.push_back(
        absl::StrFormat("column \"%s\": all but 2%% of the targets lie in %.2g%% of the range from %g to %g: the model "
                        "learns little of "
                        "how they differ. Set target_minimum and target_maximum closer to them",
                        column.name(), 100 * inner / (maximum - minimum), minimum, maximum));
  }
  return warnings;
}

std::vector<std::string> ProfileWarnings(const v1::TableSchema& schema, const TableProfile& profile) {
  std::vector<std::string> warnings, unknowns;
  std::string first_lines;
  for (int i = 0; i < schema.columns_size(); ++i) {
    const ColumnProfile& column = profile.columns[static_cast<size_t>(i)];
    if (schema.columns(i).kind() == v1::TableSchema::TARGET) {
      const std::vector<std::string> of_target =
          TargetWarnings(column, /*decimal_comma=*/false, schema.target_minimum(), schema.target_maximum());
      warnings.insert(warnings.end(), of_target.begin(), of_target.end());
    }
    if (schema.columns(i).kind() != v1::TableSchema::NUMERIC) {
      continue;
    }
    if (const std::string units = DescribeUnits(column); !units.empty()) {
      warnings.push_back(absl::StrCat("column \"", column.name(), "\": ", units, ": all are read as the bare numbers"));
    }
    std::string lines;
    if (const std::string unknown = UnknownNumbers(column, /*decimal_comma=*/false, lines); !unknown.empty()) {
      unknowns.push_back(unknown);
      first_lines = unknowns.size() == 1 ? lines : first_lines;
    }
  }
  // One line: columns that were written together have the same codes.
  if (!unknowns.empty()) {
    warnings.push_back(absl::StrCat(absl::StrJoin(unknowns, "; "),
                                    ": if this stands for a number that is not known, add ", first_lines, " to ",
                                    unknowns.size() == 1 ? "the column" : "the first, and so on,", " in the schema"));
  }
  return warnings;
}

}  // namespace splitveil
