#include "deploy/operator/local_run/figures_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace splitveil {

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == text.npos) {
    return text;
  }
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string CsvCell(const std::optional<double>& value) {
  return value.has_value() && std::isfinite(*value) ? absl::StrFormat("%.9g", *value) : "";
}

const AttackFigure* LeakOf(const RunFigures& figures, const std::string& layer, const std::string& attack) {
  for (const AttackFigure* figure : figures.over_batches()) {
    if (figure->layer == layer && figure->attack == attack) {
      return figure;
    }
  }
  return nullptr;
}

std::string FixedCell(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*f", digits, value) : "-";
}

std::string AlignedTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    absl::StrAppend(&text, row[0], std::string(widths[0] - row[0].size(), ' '));
    for (size_t i = 1; i < row.size(); ++i) {
      absl::StrAppend(&text, "  ", std::string(widths[i] - row[i].size(), ' '), row[i]);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace splitveil
