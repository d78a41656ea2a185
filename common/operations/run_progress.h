// How far the alignment and the training are, for the terminal and the status command.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "common/operations/run_status.h"
#include "common/telemetry/progress.h"

namespace splitveil {

// Not thread-safe.
class AlignmentProgress {
 public:
  // `status`: not owned; must outlive this. Sets its phase to aligning.
  explicit AlignmentProgress(RunStatus* status);

  // As AlignmentOptions::progress: ids masked so far, the own ones once and the peer's once, of `ids_to_mask`.
  void Report(uint64_t masked_ids, uint64_t ids_to_mask);
  // Ends the line on the terminal.
  void Finish();

 private:
  RunStatus* status_;
  Progress line_;
};

// Not thread-safe.
class TrainingProgress {
 public:
  // `status`: not owned; must outlive this. Sets its phase to training.
  TrainingProgress(RunStatus* status, int64_t epochs, int64_t batches_per_epoch);

  // After a batch. `steps`: batches done; `examples`: trained so far; `loss`: NaN where this party does not know it;
  // `leak`: latest leak AUC in words, may be empty.
  void Report(int64_t steps, int64_t examples, double loss, const std::string& leak);
  // Ends the line on the terminal.
  void Finish();

 private:
  RunStatus* status_;
  int64_t epochs_, batches_per_epoch_;
  Progress line_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_
