// From a stream's configuration to the runs it asks for, and what they came to as text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// One day of one protection. Its name, "marvell-0.1/day2", is its folder below the runs'; what it continues from lies
// in that of the day before. Its digest is of the days before, too.
struct StreamRun : LocalRun {
  std::string protection, day;
};

// The days of one protection, in their order.
using StreamChain = std::vector<StreamRun>;

// A chain for each protection of the stream configured in the file `config_path`. Everything is validated, each
// protection proves itself (SelfTestProtection), and the data are read. Errors: NotFound and InvalidArgument, one line
// with file and field.
absl::StatusOr<std::vector<StreamChain>> PlanStream(const std::string& config_path);

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_
