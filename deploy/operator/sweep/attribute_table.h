// The other direction of a sweep as text: further columns of sweep.csv, and a table for a terminal.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TABLE_H_

#include <string>
#include <vector>

#include "deploy/operator/sweep/tradeoff.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TABLE_H_
