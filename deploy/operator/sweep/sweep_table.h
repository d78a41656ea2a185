// A sweep's figures as text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_TABLE_H_

#include <string>
#include <vector>

#include "deploy/operator/sweep/tradeoff.h"

namespace splitveil {

// sweep.csv: a header, then one line per run: run, protection (its family), parameter, seed, the columns of
// RankingColumns, test_auc (of the best epoch), frozen_test_auc, none_test_auc (of the same seed), gain_kept
// (BottomGain::ShareKept, a fraction), final_test_auc (of regressions test_r2 and so on), test_log_loss (test_rmse),
// steps, LAYER_ATTACK_mean and LAYER_ATTACK_p95 for each layer and attack (LeakSummary, the strongest first),
// run_auc_bound, auc_bound_p95, sum_kl_mean, seconds, AttributeColumns (attribute_table.h). An empty cell: not
// measured, or of no meaning.
std::string SweepCsv(const std::vector<SweptRun>& runs);

// For a terminal: one line per protection, means over its seeds: the strongest attack on gradients and the bound's
// worst state (BoundStateName), the worst verdict, the worst case measured, the practical attack, the model's quality,
// the share of the gain kept. Then what the gain is, in a sentence (GainWords), and the other direction
// (AttributeSummary).
std::string SweepSummary(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_TABLE_H_
