// Where the time of a training step goes at one party.
#ifndef SPLITVEIL_COMMON_OPERATIONS_STEP_STOPWATCH_H_
#define SPLITVEIL_COMMON_OPERATIONS_STEP_STOPWATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "common/ledger/ledger.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_OPERATIONS_STEP_STOPWATCH_H_
