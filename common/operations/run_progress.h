// How far a run has come, for the terminal and the status, and where the time of a training step goes.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "common/ledger/ledger.h"
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

// Laps: every moment between Restart and the latest Lap counts for exactly one phase, so the phases of a step add up to
// its seconds. A step runs from the end of the one before it (or from Restart) to its own. Not thread-safe.
class StepStopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Phase = double StepTimeRow::*;

  // `now`: the time; tests pass their own.
  explicit StepStopwatch(std::function<Clock::time_point()> now = Clock::now);

  // The next step starts now: what has passed since the latest one ended belongs to none.
  void Restart();
  // What has passed since the latest lap counts for `phase`.
  void Lap(Phase phase);
  // Of what counts for `from` in this step, `seconds`, at most all of it, count for `to` instead: for a call that does
  // both.
  void Move(double seconds, Phase from, Phase to);
  // Ends the step at the latest lap; the next one starts there. `row.seconds` becomes the step's.
  StepTimeRow Finish(StepRow& row);

 private:
  const std::function<Clock::time_point()> now_;
  Clock::time_point started_, latest_;
  StepTimeRow times_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_PROGRESS_H_
