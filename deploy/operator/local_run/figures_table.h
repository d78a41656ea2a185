// Figures of runs as cells: of CSV files (RFC 4180), and of tables on a terminal.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_

#include <optional>
#include <string>
#include <vector>

#include "common/figures/run_figures.h"

namespace splitveil {

// In quotes where the text holds commas, quotes or line ends.
std::string CsvCell(const std::string& text);
// Nine significant digits; empty if the number does not exist or is not finite.
std::string CsvCell(const std::optional<double>& value);

// What the attack reached on the batches of this layer; null if it was not measured.
const AttackFigure* LeakOf(const RunFigures& figures, const std::string& layer, const std::string& attack);

// With so many digits after the point; "-" where the number does not exist.
std::string FixedCell(double value, int digits);
// Columns as wide as their widest cell; the first one flush left, numbers flush right. `rows`: at least one, all of one
// size.
std::string AlignedTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_
