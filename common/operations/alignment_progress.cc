#include "common/operations/alignment_progress.h"

#include <unistd.h>

namespace splitveil {

AlignmentProgress::AlignmentProgress(RunStatus* status) : status_(status), line_("aligning", "ids", STDERR_FILENO) {
  status_->Update([](v1::GetStatusResponse& message) { message.set_phase("aligning"); });
}

void AlignmentProgress::Report(uint64_t masked_ids, uint64_t ids_to_mask) {
  ProgressUpdate update;
  update.step = update.items = static_cast<int64_t>(masked_ids);
  update.total_steps = static_cast<int64_t>(ids_to_mask);
  line_.Update(update);
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_masked_ids(masked_ids);
    message.set_ids_to_mask(ids_to_mask);
  });
}

void AlignmentProgress::Finish() { line_.Finish(); }

}  // namespace splitveil
