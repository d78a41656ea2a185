// What the protection solved and did, as JSON.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_PROTECTION_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_PROTECTION_JSON_H_

#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// Mean and curve of every quantity of the solver that was recorded, by name; beside them the curve
// "gaussian_auc_bound", what sum_kl allows an attack on Gaussian classes.
Json SolverJson(const LedgerRun& run);

// Decisions of the release gate that occurred, with their words, and how often in each epoch; null where none was
// recorded.
Json GateJson(const LedgerRun& run);

// Histograms of the last epoch that has them, by quantity: for each class its outline, [value, percent of the
// class from there on]. Null without any.
Json DistributionsJson(const LedgerRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_PROTECTION_JSON_H_
