#include "common/operations/run_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace splitveil {
namespace {

double Seconds(StepStopwatch::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

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
    // Protobuf's JSON cannot carry NaN to a browser.
    message.set_loss(std::isnan(loss) ? 0 : loss);
  });
}

void TrainingProgress::Finish() { line_.Finish(); }

StepStopwatch::StepStopwatch(std::function<Clock::time_point()> now) : now_(std::move(now)) { Restart(); }

void StepStopwatch::Restart() {
  started_ = latest_ = now_();
  times_ = StepTimeRow();
}

void StepStopwatch::Lap(Phase phase) {
  const Clock::time_point now = now_();
  times_.*phase += Seconds(now - latest_);
  latest_ = now;
}

void StepStopwatch::Move(double seconds, Phase from, Phase to) {
  // Phases must add up to the step: no phase may give more than it has.
  seconds = std::clamp(seconds, 0.0, times_.*from);
  times_.*from -= seconds;
  times_.*to += seconds;
}

StepTimeRow StepStopwatch::Finish(StepRow& row) {
  // From lap to lap and not from now: what follows the last lap belongs to the next step.
  row.seconds = Seconds(latest_ - started_);
  StepTimeRow finished = times_;
  finished.step = row.step;
  started_ = latest_;
  times_ = StepTimeRow();
  return finished;
}

}  // namespace splitveil
