// The short table that a run ends with, for the person who started it.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/dataset/task.h"
#include "common/leakage/attack_rank.h"
#include "common/leakage/guessing.h"
#include "common/leakage/step_series.h"
#include "common/ledger/ledger.h"
#include "common/ledger/run_claim.h"

namespace splitveil {

// What the attacks on the batches reached, by layer and attack, and where known over all examples of the last epoch.
using LeakSeriesByAttack = std::map<std::pair<std::string, std::string>, StepSeries>;
using PooledAucByAttack = std::map<std::pair<std::string, std::string>, double>;

// One figure set for each of `series`, strongest first (IsStronger). `pooled`: AUCs as measured.
std::vector<MeasuredAttack> StrongestFirst(const LeakSeriesByAttack& series, const PooledAucByAttack& pooled = {});

// Of attacks in the order of StrongestFirst, those that read gradients: the strongest without side information and with
// it (hints, the classes' true moments). Null where there is none.
struct StrongestOnGradients {
  const MeasuredAttack* practical = nullptr;
  const MeasuredAttack* with_side_information = nullptr;

  // The stronger of the two, `practical` where they are equal: what runs are ranked by. Null where there is neither.
  const MeasuredAttack* strongest() const;
};
// Borrows from `strongest_first`, which must outlive it. Attacks that use given labels are left out.
StrongestOnGradients StrongestOf(const std::vector<MeasuredAttack>& strongest_first);

// What a party knows of a run's end. NaN, negative or empty: not known to it, left out. The label party knows whether
// attacks were measured, so an empty `leaks` of its own is said.
struct RunSummary {
  std::string party;  // "label party" or "non-label party".
  std::string run_id;
  std::string ended;  // "completed", "stopped", "halted" or "failed".
  std::string protection;
  int64_t epochs = 0, steps = 0, examples = 0;                // Trained, whole epochs.
  int64_t agreed_epochs = 0;                                  // 0: the run only predicts.
  double seconds = std::numeric_limits<double>::quiet_NaN();  // Spent in training steps.
  int64_t bytes_sent = 0, bytes_received = 0;                 // In training steps.
  Task task;
  // Of the best epoch. Of several classes test_auc is the macro AUC; the last two are of a regression.
  double test_auc = std::numeric_limits<double>::quiet_NaN(), test_log_loss = test_auc, test_accuracy = test_auc;
  double test_rmse = std::numeric_limits<double>::quiet_NaN(), test_r_squared = test_rmse;
  int64_t best_epoch = 0;           // From 1; 0: before the first.
  bool best_on_validation = false;  // Chosen by the validation part; otherwise on the test part itself.
  double final_test_auc = std::numeric_limits<double>::quiet_NaN(), final_test_r_squared = final_test_auc;
  double run_auc_bound = std::numeric_limits<double>::quiet_NaN();  // All releases of the run together.
  // Of single steps whose gradients left (StepAucBoundP95).
  double step_auc_bound_p95 = std::numeric_limits<double>::quiet_NaN();
  // With the runs that it resumes from; NaN where it resumes from none.
  double all_runs_auc_bound = std::numeric_limits<double>::quiet_NaN();
  bool bound_tested = false;                          // Whether an attack was held against it.
  int64_t bound_exceeded = 0;                         // Times an attack exceeded it over an epoch.
  std::vector<std::string> exceeded_by;               // By these, the strongest first; none: see the ledger's events.
  std::vector<std::pair<std::string, int64_t>> gate;  // Steps by decision of the release gate.
  std::vector<MeasuredAttack> leaks;                  // As StrongestFirst orders them.
  // Over the last epoch: of cumulative_conditional_likelihood_ratio, or else of conditional_likelihood_ratio. examples
  // 0: not measured.
  EpochLeakRow worst_case;
  std::optional<ClaimCheckRow> claim_check;       // nullopt: the run claims no mu.
  std::vector<AttributeLeakRow> attribute_leaks;  // The strongest attack on each attribute. Non-label party only.
  Guessing guessing;                              // Over the run's mean batch.
  std::string details;                            // Path of the file with every figure.
};

// "not exceeded by the attacks run here", "exceeded by norm at cut and 2 more", "no attack was held against it": the
// one wording of the terminal and the RESULT line. Unless it is proved (IsBoundProved), a bound is conditional: it
// holds for Gaussian classes only, and no run shows that it does.
std::string BoundState(const RunSummary& summary);

// What the label party's summary says of the run's promise; StandingOf gives the verdict.
RunClaim ClaimOf(const RunSummary& summary);

// Where a party leaves every figure of a run: beside its ledger, LEDGER without ".db" + ".result.json"; of one that
// only predicts with the model of a training, whose figures stay, + ".prediction.json".
std::string ResultPath(const std::string& ledger_path, bool only_predicts);

// A headline, then "  name            figures" in lines that end in '\n', in the order of the report's page: the
// verdict, the promise in one sentence, what it rests on, what the model is good for, the run. At most
// kSummaryLines lines unless `verbose`, which adds the attacks one by one.
inline constexpr int kSummaryLines = 12;
std::string RunSummaryTable(const RunSummary& summary, bool verbose = false);

// Writes it to standard error.
void PrintRunSummary(const RunSummary& summary, bool verbose = false);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_SUMMARY_H_
