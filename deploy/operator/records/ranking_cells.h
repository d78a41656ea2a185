// What runs are ranked by as cells, the same columns in every CSV file. The writer quotes them.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_

#include <string>
#include <vector>

#include "deploy/operator/records/run_ranking.h"

namespace splitveil {

// strongest_attack and strongest_auc (on gradients: what runs are ranked by), strongest_tpr_at_1pct_fpr and
// strongest_tpr_at_01pct_fpr (its true positive rates over its last epoch); practical_attack and practical_auc (without
// side information), with_side_information_attack and with_side_information_auc (with), no_gradient_attack and
// no_gradient_auc: attacks as ATTACK@LAYER; guessing_auc_p95, guessing_auc_mean; bound (BoundCell); proved_auc_bound,
// worst_case_attack and worst_case_auc, which stand beside practical_auc, the practical figure; verdict
// (StandingWords).
std::vector<std::string> RankingColumns();

// BoundStateWords with the attack as tables name it: "exceeded by norm@cut and 3 more".
std::string BoundCell(const RunRanking& ranking);

// As many as RankingColumns. An empty cell: not measured.
std::vector<std::string> RankingCells(const RunRanking& ranking);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RANKING_CELLS_H_
