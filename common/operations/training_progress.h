// Tells the person at the terminal and whoever asks for the status how far training is.
#ifndef SPLITVEIL_COMMON_OPERATIONS_TRAINING_PROGRESS_H_
#define SPLITVEIL_COMMON_OPERATIONS_TRAINING_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "common/operations/run_status.h"
#include "common/telemetry/progress.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_OPERATIONS_TRAINING_PROGRESS_H_
