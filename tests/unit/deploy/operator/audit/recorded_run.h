// Run records that meet every criterion, for tests to spoil.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_AUDIT_RECORDED_RUN_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_AUDIT_RECORDED_RUN_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/audit_report.h"

namespace splitveil {

// The label party's records of two epochs of ten steps, Marvell, every step audited: norm at cut (mean leak 0.55, p95
// 0.58), spectral at first (0.53, 0.56), and over the epochs likelihood_ratio (after epoch 2: at most 0.62, bound 0.7)
// and cumulative_direction (at most 0.66, allowed 0.72). Test AUC 0.75 at last. Positives found at 1% false alarms: at
// most 0.03; at 0.1%: 0.006.
LedgerRun RecordedRun();

// The leak series with these AUCs, one a step from 0.
LeakSeries Series(const std::string& observer, const std::string& layer, const std::string& attack,
                  std::vector<double> aucs);

// The finding of the first criterion that holds these words, of the policy in text format against `run`. Conditional
// bounds are accepted unless the policy says otherwise.
Finding Judge(const LedgerRun& run, const std::string& policy, const std::string& criterion);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_AUDIT_RECORDED_RUN_H_
