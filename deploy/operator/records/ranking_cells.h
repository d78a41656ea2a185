// What runs are ranked by as cells, the same columns in every CSV file. The writer quotes them.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_

#include <string>
#include <vector>

#include "common/figures/run_figures.h"

namespace splitveil {

// Of the strongest attack on gradients, by which runs are ranked (strongest_*), of those without and with side
// information, of one that reads no gradient, of the worst case, and of guessing: attacks as ATTACK@LAYER, their AUCs,
// and true positive rates over their last epoch. Then bound (BoundStateWords, the attack by its name),
// proved_auc_bound and verdict (VerdictWords).
std::vector<std::string> RankingColumns();

// As many as RankingColumns. An empty cell: not measured.
std::vector<std::string> RankingCells(const RunFigures& figures);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_
