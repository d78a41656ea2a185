#include "deploy/operator/prepare/column_tables.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/preprocessor.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

// A range this many times that of all but 2% of the rows leaves these a twentieth of [0, 1] or less.
constexpr double kPressedTogether = 20;

std::string Percent(int64_t count, const v1::Preprocessing& preprocessing) {
  return absl::StrFormat("%.1f%%", 100.0 * static_cast<double>(count) / static_cast<double>(preprocessing.rows()));
}

// Of names of any length; at least as wide as `head`.
template <typename Columns>
int NameWidth(const Columns& columns, const char* head) {
  size_t width = std::string(head).size();
  for (const auto& column : columns) {
    width = std::max(width, OneLine(column.name()).size());
  }
  return static_cast<int>(width);
}

std::string Figure(bool known, double number) { return known ? absl::StrFormat("%.5g", number) : "-"; }

std::string Pressed(const v1::NumericScaling& column) {
  const double inner = column.upper_quantile() / 2 - column.lower_quantile() / 2;
  const double scaled = column.maximum() / 2 - column.minimum() / 2;
  if (!column.has_least() || inner <= 0 || scaled < kPressedTogether * inner) {
    return "";
  }
  return absl::StrFormat(
      "  %s: 98%% of the rows lie in %.2g%% of the range it is scaled from; scaling: ROBUST in the schema "
      "(--scaling=robust) clips the few that lie far out\n",
      OneLine(column.name()), 100 * inner / scaled);
}

}  // namespace

std::string NumericTable(const v1::Preprocessing& preprocessing) {
  if (preprocessing.numeric().empty()) {
    return "";
  }
  const int width = NameWidth(preprocessing.numeric(), "numeric");
  std::string text = absl::StrFormat("  %-*s %8s %11s %11s %11s %11s %11s %11s %11s %8s\n", width, "numeric", "missing",
                                     "least", "1%", "median", "99%", "greatest", "scaled from", "to", "clipped");
  std::string pressed, indicators;
  for (const v1::NumericScaling& column : preprocessing.numeric()) {
    if (IsMissingIndicator(column)) {
      absl::StrAppend(&indicators, indicators.empty() ? "  further inputs, 1 where a number is missing: \"" : "\", \"",
                      OneLine(column.name()));
      continue;
    }
    const bool known = column.has_least();
    absl::StrAppendFormat(
        &text, "  %-*s %8s %11s %11s %11s %11s %11s %11s %11s %8s\n", width, OneLine(column.name()),
        Percent(column.missing(), preprocessing), Figure(known, column.least()), Figure(known, column.lower_quantile()),
        Figure(known, column.median()), Figure(known, column.upper_quantile()), Figure(known, column.greatest()),
        Figure(true, column.minimum()), Figure(true, column.maximum()), Percent(column.clipped(), preprocessing));
    absl::StrAppend(&pressed, Pressed(column));
  }
  return absl::StrCat(text, indicators, indicators.empty() ? "" : "\"\n", pressed);
}

std::string CategoricalTable(const v1::Preprocessing& preprocessing) {
  if (preprocessing.categorical().empty()) {
    return "";
  }
  const int width = NameWidth(preprocessing.categorical(), "categorical");
  std::string text = absl::StrFormat("  %-*s %8s %14s\n", width, "categorical", "missing", "embedding rows");
  for (const v1::CategoryIndex& column : preprocessing.categorical()) {
    int64_t rows = 0;
    for (const v1::CategoryIndex::Block& block : column.blocks()) {
      rows += block.rows();
    }
    absl::StrAppendFormat(&text, "  %-*s %8s %14d\n", width, OneLine(column.name()),
                          Percent(column.missing(), preprocessing), rows);
  }
  absl::StrAppend(&text, "  embedding rows: ", preprocessing.embedding_rows());
  if (preprocessing.has_extends_sha256()) {
    absl::StrAppend(&text, ", ", preprocessing.embedding_rows() - preprocessing.extended_embedding_rows(),
                    " of them new");
  }
  return text + "\n";
}

}  // namespace splitveil
