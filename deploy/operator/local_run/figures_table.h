// Figures of runs as cells: of CSV files (RFC 4180), and of tables on a terminal.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_

#include <string>
#include <vector>

#include "deploy/operator/local_run/finished_run.h"

namespace splitveil {

// In quotes where the text holds commas, quotes or line ends.
std::string CsvCell(const std::string& text);
// Nine significant digits; empty where the number does not exist.
std::string CsvCell(double value);

// The leak of this attack at this layer; NaN where it was not measured.
LeakPoint LeakOf(const RunFigures& figures, const std::string& layer, const std::string& attack);

// With so many digits after the point; "-" where the number does not exist.
std::string FixedCell(double value, int digits);
// Columns as wide as their widest cell; the first one flush left, numbers flush right. `rows`: at least one, all of one
// size.
std::string AlignedTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FIGURES_TABLE_H_
