// What the days of a stream came to, as text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_TABLE_H_

#include <string>
#include <vector>

#include "common/figures/run_figures.h"

namespace splitveil {

// One finished day of one protection.
struct StreamedDay {
  std::string day, protection;
  RunFigures figures;        // Of its result file.
  RunFigures recorded = {};  // Of its ledger.
};

// stream.csv: a header, then one line per finished day and protection: day, protection, test_auc and log_loss (of the
// day's examples, before they were trained on), the columns of RankingColumns, LAYER_ATTACK_mean (LeakSummary, over the
// day's batches) for each layer and attack, run_auc_bound, sum_kl_mean, seconds. An empty cell: not measured.
std::string StreamCsv(const std::vector<StreamedDay>& days);

// For a terminal: one line per protection, means over its days: the strongest attack on gradients (its AUC over the
// days, the attack of the day that leaks most), the bound's worst state, the strongest without and with side
// information, the model's quality.
std::string StreamSummary(const std::vector<StreamedDay>& days);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_TABLE_H_
