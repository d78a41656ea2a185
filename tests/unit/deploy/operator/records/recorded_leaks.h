// A run's leaks as its ledgers hold them, by the non-label party where nothing else is said.
#ifndef SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_RECORDS_RECORDED_LEAKS_H_
#define SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_RECORDS_RECORDED_LEAKS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/leakage/summary.h"

namespace splitveil {

// Two batches of the same AUC.
inline LeakSeries Series(const std::string& layer, const std::string& attack, double auc) {
  LeakSeries series = {"nonlabel_party", layer, attack, {0, 1}, {auc, auc}, {}};
  series.summary = SummarizeLeak(series.aucs);
  return series;
}

// `bound`: what Gaussian classes allow.
inline EpochLeakRow Row(int64_t epoch, const std::string& layer, const std::string& attack, double auc,
                        double bound = 1) {
  EpochLeakRow row;
  row.epoch = epoch;
  row.observer = "nonlabel_party";
  row.layer = layer;
  row.attack = attack;
  row.auc = row.auc_low = row.auc_high = auc;
  row.gaussian_auc_bound = bound;
  return row;
}

// Of one party.
inline LedgerRun Recorded(std::vector<LeakSeries> leaks, std::vector<EpochLeakRow> rows) {
  LedgerRun run;
  run.parties.emplace_back();
  run.parties[0].leaks = std::move(leaks);
  run.parties[0].epoch_leaks = std::move(rows);
  return run;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_DEPLOY_OPERATOR_RECORDS_RECORDED_LEAKS_H_
