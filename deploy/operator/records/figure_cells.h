// Figures of runs as cells: of CSV files (RFC 4180), and of tables on a terminal; and what runs are ranked by, the same
// columns in every file.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_FIGURE_CELLS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_FIGURE_CELLS_H_

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

// Of the strongest attack on gradients, by which runs are ranked (strongest_*), of those without and with side
// information, of one that reads no gradient, of the worst case, and of guessing: attacks as ATTACK@LAYER, their AUCs,
// and true positive rates over their last epoch. Then bound (BoundStateWords, the attack by its name),
// proved_auc_bound and verdict (VerdictWords).
std::vector<std::string> RankingColumns();

// As many as RankingColumns. An empty cell: not measured.
std::vector<std::string> RankingCells(const RunFigures& figures);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_FIGURE_CELLS_H_
