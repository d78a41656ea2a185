#include "common/operations/step_stopwatch.h"

#include <algorithm>
#include <utility>

namespace splitveil {
namespace {

double Seconds(StepStopwatch::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

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
  seconds = std::clamp(seconds, 0.0, times_.*from);
  times_.*from -= seconds;
  times_.*to += seconds;
}

StepTimeRow StepStopwatch::Finish(StepRow& row) {
  row.seconds = Seconds(latest_ - started_);
  StepTimeRow finished = times_;
  finished.step = row.step;
  started_ = latest_;
  times_ = StepTimeRow();
  return finished;
}

}  // namespace splitveil
