// Runs that continue one another, day by day.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_CHAIN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_CHAIN_H_

#include <cstddef>
#include <vector>

#include "deploy/operator/records/attack_leak.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// Indices into the runs, each of which continues the one before it (RunRow.resumed_from).
using RunChain = std::vector<size_t>;

// One chain for each run that no other continues and that continues another; a run may begin several. Runs whose
// predecessor is not among `runs` begin a chain.
std::vector<RunChain> FindChains(const std::vector<LedgerRun>& runs);

// The runs to show in full: all where the page can tell their lines apart, else those that no other continues.
std::vector<size_t> RunsInFull(const std::vector<LedgerRun>& runs, const std::vector<RunChain>& chains);

// {"charted": layers and attacks, "chains": [{"label", "runs": [{"id", "auc", "log_loss", "ranking", "leaks": [mean
// leak AUC for each charted layer and attack]}]}]}: the day-by-day figures of Li et al. 2021, Figure 4.
// Quality is that of the model as it came (an evaluation before the first step), else the best. `leaks`: of each run.
// Null without chains.
Json ChainsJson(const std::vector<LedgerRun>& runs, const std::vector<std::vector<AttackLeak>>& leaks,
                const std::vector<RunChain>& chains);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_RUN_CHAIN_H_
