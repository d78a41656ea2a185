// What one pass over all rows of a table finds out about each column.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_PROFILE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_PROFILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/cell_form.h"
#include "deploy/operator/preparation/column_sketches.h"
#include "deploy/operator/preparation/id_form.h"

namespace splitveil {

// Cells of a kind, and the lines of the first and the last of them; no line: 0.
struct Occurrences {
  int64_t rows = 0;
  int64_t first_line = 0, last_line = 0;

  void Add(int64_t line) {
    first_line = rows++ == 0 ? line : first_line;
    last_line = line;
  }
};

// The shortest text that reads back as the number.
std::string NumberText(double number);

// A number that seems to mean "unknown".
struct UnknownNumber {
  std::string text;  // As a schema has it: "-999999".
  int64_t rows;
  const char* why;  // "far from all others".
};

// Counts of a column's cells. Holds texts of the column: print counts, never them. Memory: about 0.5 MiB at most,
// whatever the number of rows. Not thread-safe.
class ColumnProfile {
 public:
  // Distinct texts that are kept, with their counts; of a column with more, none is.
  static constexpr size_t kMaxTexts = 256;
  // The same of texts that are no numbers.
  static constexpr size_t kMaxWords = 16;
  // Texts that are looked at as ids, whether they can be ids or not.
  static constexpr int64_t kSurveyedTexts = 1000;

  // What a schema says of the column.
  struct Declared {
    std::optional<NumberFormat> format;   // Nullopt if that is to be found out, as are the usual words for missing.
    std::vector<std::string> missing;     // Texts.
    std::vector<double> missing_numbers;  // However they are written.
  };
  explicit ColumnProfile(std::string name, Declared declared = {})
      : name_(std::move(name)), declared_(std::move(declared)) {}

  // `line`: of the file, from 1.
  void Add(absl::string_view cell, int64_t line);

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  int64_t empty() const { return empty_; }
  // Cells that are a text which means "missing", by text: kept apart from all other counts.
  const std::map<std::string, int64_t>& markers() const { return markers_; }
  int64_t marked() const { return marked_; }
  // Cells that are neither empty nor a marker.
  int64_t texts() const { return rows_ - empty_ - marked_; }
  const Occurrences& form(CellForm form) const { return forms_[static_cast<size_t>(form)]; }
  int64_t dates() const { return form(CellForm::kDate).rows; }
  // Cells that are a number in some form.
  int64_t numbers() const { return written_numbers() - word_rows(); }
  // Numbers with a unit, if those are texts: 12 Elm, 7 Oak. A word is a unit only if it is the one of at least half the
  // numbers.
  int64_t word_rows() const {
    const int64_t with_unit = form(CellForm::kUnit).rows;
    return has_word_unit_ && (units_.size() > 1 || 2 * with_unit < written_numbers()) ? with_unit : 0;
  }
  // Numbers without a fraction, whichever way they are read.
  int64_t integers() const { return integers_; }
  // Integers with zeros in front, as in "007" and "01234": codes.
  int64_t padded() const { return padded_; }
  // Cells of numbers with / or : between them; how many more are times of day.
  const Occurrences& parts() const { return parts_; }
  int64_t times_of_day() const { return times_of_day_; }
  // Distinct texts: DistinctSketch says how exactly. If none is known to repeat, all of them.
  int64_t distinct() const { return distinct_.repeats() == 0 ? texts() : distinct_.estimate(); }
  bool distinct_is_exact() const { return distinct_.exact(); }
  // Whether every row has a text of its own, as far as the sketch knows.
  bool names_rows() const { return rows_ > 1 && texts() == rows_ && distinct_.repeats() == 0; }
  // Cells that repeat a text of an earlier row, as far as the sketch knows, and cells without a text.
  const Occurrences& repeated() const { return repeated_; }
  const Occurrences& gaps() const { return gaps_; }
  // How its texts are written as ids: all of them if names_rows() and they are no measurements, else at least the first
  // kSurveyedTexts.
  const IdSurvey& ids() const { return ids_; }
  // Distinct texts and where each occurs; empty if there are more than kMaxTexts.
  std::map<std::string, Occurrences> counts() const;
  // The same of texts of form kText; nullopt if there are more than kMaxWords.
  std::optional<std::map<std::string, Occurrences>> words() const;
  const std::map<std::string, Occurrences>& units() const { return units_; }

  // Numbers that can be read with a decimal point alone, or with a decimal comma alone.
  const Occurrences& point_only() const { return point_only_; }
  const Occurrences& comma_only() const { return comma_only_; }
  // Numbers such as 1,234, with a unit or without, that read differently.
  const Occurrences& comma_group() const { return comma_group_; }
  // An integer from 1000 on whose thousands nothing separates.
  bool has_long_integer() const { return has_long_integer_; }
  // By what separates thousands if the decimal is a point, or a comma.
  const std::map<char, Occurrences>& thousands(bool decimal_comma) const { return thousands_[decimal_comma ? 1 : 0]; }
  // The numbers as read with a decimal comma or a point. Incomplete where both kinds of number are in the column.
  const NumberSample& sample(bool decimal_comma) const { return values(decimal_comma).sample; }
  const Extremes& extremes(bool decimal_comma) const { return values(decimal_comma).extremes; }
  // Numbers that seem to mean "unknown": the most extreme one to three, if they repeat and are far from all others;
  // nines (9999) if there are no others near; -1 or negative nines if all others are positive or 0. Never 0, and in
  // a column of fewer than ten other numbers three nines at least.
  std::vector<UnknownNumber> unknowns(bool decimal_comma) const;

 private:
  int64_t written_numbers() const {
    return texts() - dates() - form(CellForm::kOddDigits).rows - form(CellForm::kText).rows;
  }
  struct Values {
    NumberSample sample;
    Extremes extremes;

    void Add(double number) {
      sample.Add(number);
      extremes.Add(number);
    }
  };
  // What is known of a text.
  struct Known {
    std::string text;
    std::string unit;  // The scan borrows nothing.
    CellScan scan;
    bool missing = false;
    Occurrences found;
  };

  const Values& values(bool decimal_comma) const {
    return decimal_comma && comma_values_ != nullptr ? *comma_values_ : values_;
  }
  CellScan Scan(absl::string_view cell) const;
  bool IsMissing(absl::string_view cell, const CellScan& scan) const;
  void AddKnown(int64_t line, Known& known);
  void AddId(absl::string_view cell, int64_t line);
  // What a cell adds that is no marker.
  void AddScan(const CellScan& scan, int64_t line);
  // From now on texts are no longer kept, but a few that are no numbers.
  void ForgetTexts();
  void AddNumber(const CellScan& scan, int64_t line);

  std::string name_;
  Declared declared_;
  bool has_long_integer_ = false, has_word_unit_ = false;
  int64_t rows_ = 0, empty_ = 0, marked_ = 0, integers_ = 0, padded_ = 0, times_of_day_ = 0;
  std::map<std::string, int64_t> markers_;
  std::array<Occurrences, kCellFormNames.size()> forms_;
  Occurrences point_only_, comma_only_, comma_group_, repeated_, gaps_, parts_;
  std::map<char, Occurrences> thousands_[2];
  std::map<std::string, Occurrences> units_;
  DistinctSketch distinct_;
  IdSurvey ids_;
  std::optional<std::map<std::string, Occurrences>> words_;  // Once texts are no longer kept.
  // By hash, so that a cell is hashed once; cleared for good beyond kMaxTexts.
  absl::flat_hash_map<uint64_t, Known, AsHash> known_;
  bool keeps_texts_ = true;
  Values values_;
  std::shared_ptr<Values> comma_values_;  // From the first number on that reads differently with a decimal comma.
};

// How the numbers of a column are to be read, or why that is not known.
struct FormatFinding {
  NumberFormat format;
  // Empty, or why they cannot be read: form, first line and the schema lines that choose, behind "found".
  std::string problem;
  // Cells that are numbers and read so.
  int64_t readable = 0;
};

// `decimal`: what the user says of the decimal in this table: '.', ',' or 0 if it is to be found out. Numbers such as
// 1,234 are then a problem if no cell tells, and so are numbers such as 1.234, unless an integer from 1000 on has no
// separator and no other column a decimal comma (`comma_elsewhere`).
FormatFinding FindFormat(const ColumnProfile& column, char decimal, bool comma_elsewhere);

// "numbers with different units ("g" in 9 rows, first in line 2, ...)", or a unit at some numbers alone; "" if neither.
std::string DescribeUnits(const ColumnProfile& column);

// Of each column of a table, in the order of its schema or its header line.
struct TableProfile {
  std::vector<ColumnProfile> columns;
};

// Of a column of targets in this range: a line for numbers that seem to mean "unknown", for more than 1% beyond the
// range, and for a range 20 times as wide as all but 2% of the targets or more. Shares are those of sample().
std::vector<std::string> TargetWarnings(const ColumnProfile& column, bool decimal_comma, double minimum,
                                        double maximum);
// The share of the targets beyond the range.
double ClippedShare(const ColumnProfile& column, bool decimal_comma, double minimum, double maximum);

// Lines for each NUMERIC column of `schema`, whose columns the profile has, with numbers that seem to mean "unknown"
// (column, values, share of the rows, and what to add to the schema) or with several units; and TargetWarnings.
std::vector<std::string> ProfileWarnings(const v1::TableSchema& schema, const TableProfile& profile);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_PROFILE_H_
