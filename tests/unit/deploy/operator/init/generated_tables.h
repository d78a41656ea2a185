// Random tables as people write them, with the values that they were made from.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_GENERATED_TABLES_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_GENERATED_TABLES_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace splitveil::testing {

inline constexpr const char* kMissingWords[] = {"",  "NA",   "None", "-", "NaT", "n/a",
                                                "?", "<NA>", "#N/A", ".", "nil", "unbekannt"};
inline constexpr const char* kSentinels[] = {"-999999", "-1", "99999", "-9999"};
inline constexpr const char* kUnits[] = {"EUR", "€", "$", "kg", "%"};
inline constexpr const char* kThousands[] = {"", "", "", ",", ".", "'", "_", "\xc2\xa0", "\xe2\x80\xaf"};

class Draws {
 public:
  explicit Draws(uint64_t seed) : engine_(seed) {}
  int Below(int bound) { return static_cast<int>(engine_() % static_cast<uint64_t>(bound)); }
  bool Is(double share) { return Below(1'000'000) < 1e6 * share; }
  template <typename List>
  const char* Of(const List& list) {
    return list[Below(static_cast<int>(std::size(list)))];
  }

 private:
  std::mt19937_64 engine_;
};

// How a column is written.
struct Writing {
  bool numbers = true;
  bool flag = false;
  char decimal = '.';
  std::string thousands, unit, missing_word, sentinel;
  bool unit_in_front = false, plus = false, wide_minus = false, negative = false;
  int decimals = 0, magnitude = 3;
  double missing_share = 0, sentinel_share = 0;
  bool sorted = false;
  bool late = false;  // Nothing but one number for the first four fifths.
};

struct Cell {
  std::string text;
  double number = std::numeric_limits<double>::quiet_NaN();  // NaN: missing.
  std::string category;
};

inline Writing DrawWriting(Draws& draws, bool comma_table) {
  Writing writing;
  writing.numbers = !draws.Is(0.2);
  writing.flag = !writing.numbers && draws.Is(0.3);
  writing.decimal = comma_table ? ',' : '.';
  writing.decimals = draws.Below(4);
  writing.magnitude = 1 + draws.Below(7);
  writing.thousands = draws.Of(kThousands);
  writing.thousands = writing.thousands == std::string(1, writing.decimal) ? "" : writing.thousands;
  writing.unit = draws.Is(0.2) ? draws.Of(kUnits) : "";
  writing.unit_in_front = writing.unit != "kg" && writing.unit != "%" && draws.Is(0.5);
  writing.plus = draws.Is(0.1);
  writing.wide_minus = draws.Is(0.2);
  writing.negative = draws.Is(0.3);
  // Ten numbers and a word may be eleven codes.
  writing.missing_word = writing.magnitude > 1 ? draws.Of(kMissingWords) : "";
  writing.missing_share = draws.Is(0.5) ? 0 : 0.3 * draws.Below(100) / 100;
  // -1 and the like are no other number's neighbours.
  writing.sentinel =
      draws.Is(0.25) && !writing.negative && writing.magnitude > 1 && writing.magnitude <= 3 && writing.unit.empty()
          ? draws.Of(kSentinels)
          : "";
  writing.sentinel_share = 0.03;
  writing.sorted = draws.Is(0.2);
  writing.late = draws.Is(0.15);
  return writing;
}

// `digits`: a whole number without sign, in units of the last decimal.
inline std::string Written(const Writing& writing, int64_t value) {
  const std::string digits = absl::StrFormat("%0*d", writing.decimals + 1, std::abs(value));
  std::string whole = digits.substr(0, digits.size() - writing.decimals);
  const std::string fraction = digits.substr(digits.size() - writing.decimals);
  for (int place = static_cast<int>(whole.size()) - 3; place > 0; place -= 3) {
    whole.insert(static_cast<size_t>(place), writing.thousands);
  }
  const std::string number = absl::StrCat(whole, writing.decimals > 0 ? std::string(1, writing.decimal) : "", fraction);
  const std::string sign = value < 0 ? (writing.wide_minus ? "\xe2\x88\x92" : "-") : writing.plus ? "+" : "";
  return writing.unit.empty()    ? sign + number
         : writing.unit_in_front ? absl::StrCat(sign, writing.unit, " ", number)
                                 : absl::StrCat(sign, number, " ", writing.unit);
}

inline std::vector<Cell> DrawColumn(Draws& draws, const Writing& writing, int rows) {
  std::vector<int64_t> values;
  int64_t bound = 1;
  for (int i = 0; i < writing.magnitude + writing.decimals; ++i) {
    bound *= 10;
  }
  for (int row = 0; row < rows; ++row) {
    const int64_t value = static_cast<int64_t>(bound * (draws.Below(1'000'000) / 1e6));
    values.push_back(writing.negative && draws.Is(0.4) ? -value : value);
  }
  if (writing.sorted) {
    std::sort(values.begin(), values.end());
  }
  std::vector<Cell> cells;
  for (int row = 0; row < rows; ++row) {
    Cell cell;
    const int64_t value = writing.late && 5 * row < 4 * rows ? bound / 2 : values[static_cast<size_t>(row)];
    const bool missing = draws.Is(writing.missing_share);
    if (!writing.sentinel.empty() && writing.numbers && draws.Is(writing.sentinel_share)) {
      cell.text = writing.sentinel;
    } else if (missing || (writing.flag && draws.Is(0.5))) {
      cell.text = writing.missing_word;
      // Among numbers it means missing; among kinds nobody knows.
      cell.category = cell.text == "unbekannt" ? cell.text : "";
    } else if (writing.numbers) {
      cell.text = Written(writing, value);
      // The value by the C library, of plain digits.
      cell.number = std::strtod(absl::StrFormat("%de-%d", value, writing.decimals).c_str(), nullptr);
    } else {
      cell.text = cell.category = writing.flag ? "set" : absl::StrCat("kind ", 'A' + std::abs(value) % 5);
    }
    cells.push_back(std::move(cell));
  }
  return cells;
}

struct Table {
  std::string text;
  std::vector<Writing> writings;
  std::vector<std::vector<Cell>> columns;
};

inline Table DrawTable(Draws& draws) {
  Table table;
  const int rows = 300 + draws.Below(1200);
  const bool comma_table = draws.Is(0.4);
  const char separator = ",;\t|"[draws.Below(4)];
  const bool quotes_all = draws.Is(0.3);
  for (int column = 1 + draws.Below(6); column > 0; --column) {
    table.writings.push_back(DrawWriting(draws, comma_table));
    table.columns.push_back(DrawColumn(draws, table.writings.back(), rows));
  }
  const auto add = [&](const std::string& cell) {
    const bool quoted = quotes_all || cell.find(separator) != std::string::npos || draws.Is(0.02);
    absl::StrAppend(&table.text, quoted ? absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"") : cell);
  };
  add("key");
  for (size_t column = 0; column < table.columns.size(); ++column) {
    absl::StrAppend(&table.text, std::string(1, separator));
    add(absl::StrCat("feature_", column));
  }
  for (int row = 0; row < rows; ++row) {
    absl::StrAppend(&table.text, draws.Is(0.01) ? "\n\n" : "\n");
    add(absl::StrCat("K", row));
    for (const std::vector<Cell>& column : table.columns) {
      absl::StrAppend(&table.text, std::string(1, separator));
      add(column[static_cast<size_t>(row)].text);
    }
  }
  return table;
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_INIT_GENERATED_TABLES_H_
