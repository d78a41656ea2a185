#include "common/operations/training_progress.h"

#include <unistd.h>

#include <cmath>

namespace splitveil {

TrainingProgress::TrainingProgress(RunStatus* status, int64_t epochs, int64_t batches_per_epoch)
    : status_(status), epochs_(epochs), batches_per_epoch_(batches_per_epoch), line_("training", "ex", STDERR_FILENO) {
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_phase("training");
    message.set_total_steps(epochs * batches_per_epoch);
  });
}

void TrainingProgress::Report(int64_t steps, int64_t examples, double loss, const std::string& leak) {
  ProgressUpdate update;
  update.step = steps;
  update.total_steps = epochs_ * batches_per_epoch_;
  update.epoch = (steps - 1) / batches_per_epoch_;
  update.epochs = epochs_;
  update.items = examples;
  update.loss = loss;
  update.leak = leak;
  line_.Update(update);
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_step(steps);
    message.set_epoch(update.epoch);
    message.set_loss(std::isnan(loss) ? 0 : loss);
  });
}

void TrainingProgress::Finish() { line_.Finish(); }

}  // namespace splitveil
