// How cells of a table are written: numbers as people and programs write them.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_FORM_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_FORM_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/cell_words.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

enum class CellForm : uint8_t {
  kInteger,
  kDecimalPoint,
  kDecimalComma,
  kCommaGroup,  // 1,234: with a decimal comma or a thousands comma.
  kThousands,
  kUnit,
  kPercent,
  kDate,
  kOddDigits,  // No number that is known, but meant as one: 1,23,456, (12.50), ="12.50", 0x1F.
  kText,
};
// For people, by number.
inline constexpr std::array<const char*, 10> kCellFormNames = {
    "integer", "decimal point", "decimal comma", "1,234", "thousands", "unit", "percent", "date", "odd digits", "text"};

// What a cell may be. A number has up to two readings: with a decimal point and with a decimal comma. 12 has both and
// 1.5 the first alone; 1,234 is 1234 with a decimal point and 1.234 with a decimal comma.
struct CellScan {
  CellForm form = CellForm::kText;
  // Finite, or NaN if the cell cannot be read so.
  double as_point = std::numeric_limits<double>::quiet_NaN();
  double as_comma = std::numeric_limits<double>::quiet_NaN();
  // What separates thousands in that reading: one of , . ' _ and the blank; 0: nothing.
  char point_thousands = 0, comma_thousands = 0;
  absl::string_view unit;  // In front or behind, such as "EUR" or "%"; borrows the cell.
  bool padded = false;     // An integer with zeros in front: 007.
  // Numbers with / or : between them: 51/100, 53:07, 101:30:00. Not as a time of day has them, 23:07, which says so.
  bool parts = false, time_of_day = false;
};

// A cell is a number with an optional sign (+, -, U+2212) and exponent, blanks around it, and a unit: % or a currency
// (€, EUR) in front or behind, a unit of measure or a denominator behind ("51/100"), or any word behind a blank ("12
// rooms"). Time and memory: constant beyond the cell's length.
CellScan ScanCell(absl::string_view cell);

// How a column's numbers are written, as TableSchema.Column has it.
struct NumberFormat {
  bool decimal_comma = false;
  char thousands = 0;
  std::vector<std::string> strip;
};
NumberFormat FormatOf(const v1::TableSchema::Column& column);

// The cell's finite number; false if it is none in this format.
bool ReadNumber(absl::string_view cell, const NumberFormat& format, double& number);

// For an error about a cell that is no number in its column's format: what it seems to be and the schema's line that
// reads it. Never what stands there.
const char* ReadingHint(absl::string_view cell);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_FORM_H_
