// A sweep's figures as text: sweep.csv and the tables on a terminal, of the labels and of the other direction.
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
// run_auc_bound, auc_bound_p95, sum_kl_mean, seconds, AttributeColumns. An empty cell: not
// measured, or of no meaning.
std::string SweepCsv(const std::vector<SweptRun>& runs);

// For a terminal: one line per protection, means over its seeds: the strongest attack on gradients and the bound's
// worst state (BoundStateName), the worst verdict, the worst case measured, the practical attack, the model's quality,
// the share of the gain kept. Then what the gain is, in a sentence (GainWords), and the other direction
// (AttributeSummary).
std::string SweepSummary(const std::vector<SweptRun>& runs);

// activation_protection, cut_layer, cut_width, test_accuracy (at last: the utility), proved_attribute_auc_bound,
// largest_privacy_loss; of each attribute ATTRIBUTE_attack (the strongest, as ATTACK@EXAMPLES), _accuracy, _floor,
// _auc, _advantage, and of each attack ATTRIBUTE_ATTACK_EXAMPLES_accuracy. Attacks that read the training: their best
// epoch. None where no run says anything of the other direction.
std::vector<std::string> AttributeColumns(const std::vector<SweptRun>& runs);

// Of one of `runs`, as many, quoted. An empty cell: not measured.
std::vector<std::string> AttributeCells(const std::vector<SweptRun>& runs, const SweptRun& run);

// One line per protection and attribute, means over the seeds, with the range where they differ; empty where there are
// no AttributeColumns. Ends with a line end.
std::string AttributeSummary(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_TABLE_H_
