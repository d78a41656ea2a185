// Tells the person at the terminal and whoever asks for the status how far the alignment is.
#ifndef SPLITVEIL_COMMON_OPERATIONS_ALIGNMENT_PROGRESS_H_
#define SPLITVEIL_COMMON_OPERATIONS_ALIGNMENT_PROGRESS_H_

#include <cstdint>

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_ALIGNMENT_PROGRESS_H_
