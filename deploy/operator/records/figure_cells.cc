#include "deploy/operator/records/figure_cells.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "common/figures/figure_words.h"

namespace splitveil {
namespace {

std::string Cell(const std::optional<double>& value) {
  return value.has_value() && std::isfinite(*value) ? absl::StrFormat("%.9g", *value) : "";
}

// ATTACK@LAYER; empty for null.
std::string Place(const AttackFigure* attack) {
  return attack != nullptr ? absl::StrCat(attack->attack, "@", attack->layer) : "";
}

std::string AucCell(const AttackFigure* attack) { return attack != nullptr ? Cell(attack->auc()) : ""; }

}  // namespace

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

std::vector<std::string> RankingColumns() {
  return {"strongest_attack",
          "strongest_auc",
          "strongest_tpr_at_1pct_fpr",
          "strongest_tpr_at_01pct_fpr",
          "practical_attack",
          "practical_auc",
          "with_side_information_attack",
          "with_side_information_auc",
          "no_gradient_attack",
          "no_gradient_auc",
          "guessing_auc_p95",
          "guessing_auc_mean",
          "bound",
          "proved_auc_bound",
          "worst_case_attack",
          "worst_case_auc",
          "worst_case_tpr_at_1pct_fpr",
          "verdict"};
}

std::vector<std::string> RankingCells(const RunFigures& figures) {
  const AttackFigure* const strongest = figures.strongest();
  const AttackFigure* const worst_case = figures.worst_case.has_value() ? &*figures.worst_case : nullptr;
  const Guessing guessing = figures.guessing.value_or(Guessing());
  return {Place(strongest),
          AucCell(strongest),
          strongest != nullptr ? Cell(strongest->tpr_1pct()) : "",
          strongest != nullptr ? Cell(strongest->tpr_01pct()) : "",
          Place(figures.practical()),
          AucCell(figures.practical()),
          Place(figures.with_side_information()),
          AucCell(figures.with_side_information()),
          Place(figures.no_gradient()),
          AucCell(figures.no_gradient()),
          Cell(guessing.p95),
          Cell(guessing.mean),
          BoundStateWords(figures, AttackNaming::kName),
          Cell(figures.proved_auc_bound()),
          Place(worst_case),
          AucCell(worst_case),
          worst_case != nullptr ? Cell(worst_case->tpr_1pct()) : "",
          VerdictWords(figures.verdict())};
}

}  // namespace splitveil
