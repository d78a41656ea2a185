// The short table that a run ends with, for the person who started it.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace splitveil {

// Leak AUC of one attack at one layer over the batches of a run.
struct LeakFigure {
  std::string layer, attack;
  double mean = 0;       // Turned: 0.5 + |mean - 0.5|, since an adversary turns a score that points the wrong way.
  double mean_ci95 = 0;  // Half width of its 95% interval.
  double p95 = 0;        // 95% quantile of the turned AUCs.
};

// Layer by layer, by name, and within a layer the strongest attack first. The rule everywhere: the higher p95; where
// those are equal, the higher mean. `series`: (layer, attack) -> leak AUC of each batch.
std::vector<LeakFigure> StrongestFirst(
    const std::map<std::pair<std::string, std::string>, std::vector<double>>& series);

// What a party knows of a run's end. NaN, negative or empty: not known to it, left out.
struct RunSummary {
  std::string party;  // "label party" or "non-label party".
  std::string run_id;
  std::string ended;  // "completed", "stopped", "halted" or "failed".
  std::string protection;
  int64_t epochs = 0, steps = 0, examples = 0;
  double seconds = std::numeric_limits<double>::quiet_NaN();                             // Spent in training steps.
  int64_t bytes_sent = 0, bytes_received = 0;                                            // In training steps.
  double test_auc = std::numeric_limits<double>::quiet_NaN(), test_log_loss = test_auc;  // Of the best epoch.
  int64_t best_epoch = 0;                                                                // From 1; 0: before the first.
  double final_test_auc = std::numeric_limits<double>::quiet_NaN();
  double run_auc_bound = std::numeric_limits<double>::quiet_NaN();  // All releases of the run together.
  int64_t bound_exceeded = 0;                                       // Times an attack exceeded it over an epoch.
  std::vector<std::pair<std::string, int64_t>> gate;                // Steps by decision of the release gate.
  std::vector<LeakFigure> leaks;                                    // As StrongestFirst orders them.
  std::string details;                                              // Path of the file with every figure.
};

// Where a party leaves every figure of a run: beside its ledger, LEDGER without ".db" + ".result.json".
std::string ResultPath(const std::string& ledger_path);

// The table: a headline, then "  name            figures" in lines that end in '\n'.
std::string RunSummaryTable(const RunSummary& summary);

// Writes it to standard error.
void PrintRunSummary(const RunSummary& summary);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
