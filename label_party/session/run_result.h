// What a run came to: the RESULT line.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_RESULT_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_RESULT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "label_party/audit/leak_auditor.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {

struct TestMetrics {
  int64_t epoch = -1;  // From 0; -1: before the first (RunAgreement.progressive_validation).
  double log_loss = 0, auc = 0, calibration_error = 0, accuracy = 0;
};

// Steps by what the release gate decided.
using GateCounts = std::map<v1::GateAction, int64_t>;

// Figures gathered while a run trains.
struct RunResult {
  std::string run_id, protection;
  int64_t aligned_examples = 0;
  std::string resumed_from;  // RUN_ID/EPOCHS of the checkpoint it started from; empty: fresh weights.
  int64_t epochs = 0;        // As agreed, or as many as were trained where the label party stopped early.
  int64_t steps = 0;
  int64_t trained_examples = 0;
  double epoch_loss_sum = 0;  // Sum of example losses in the epoch under way.
  int64_t epoch_examples = 0;
  double train_log_loss = 0;                   // Mean over the latest finished epoch.
  double train_seconds = 0;                    // Spent in training steps, evaluation left out.
  int64_t bytes_sent = 0, bytes_received = 0;  // Protobuf payload of training messages.
  std::vector<double> sum_kls, auc_bounds;     // One a step whose gradients left.
  double cumulative_sum_kl = 0;                // Largest sum of divergences over the releases of one example.
  double earlier_sum_kl = 0;                   // The same of the runs that this one continues.
  GateCounts gate;                             // Steps after the bottom model was frozen: FREEZE_BOTTOM.
  std::optional<int64_t> frozen_after_epoch;   // Whole epochs released before the gate froze the bottom model.
  std::vector<TestMetrics> tests;              // One an epoch; under progressive_validation one before the first.
};

// The RESULT line's JSON object (contract.md): test_* are those of the epoch with the best test AUC (best_epoch 0:
// before the first), final_test_auc the last one's; run_auc_bound is the Gaussian AUC of an adversary that remembers
// every release of the run, all_runs_auc_bound of one that remembers the runs it continues, too, were the most
// exposed example in all of them; gate counts the steps by decision; frozen_after_epoch is null where the bottom model
// was never frozen; bound_exceeded counts the attacks that read more over an epoch than the noise allows. `leak`
// summarises the AUCs of batches as the papers do; `epoch_leak` gives the figures over all examples of the latest
// epoch, [low, high] being 95% intervals. Layers are keyed by their own names. Numbers that do not exist are null.
std::string ResultJson(const RunResult& result, const LeakAuditor& auditor);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_RESULT_H_
