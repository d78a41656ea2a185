// Time for durations and deadlines. The wall clock may be set during a run; whether a peer has been silent for
// too long must not depend on that.
#ifndef SPLITVEIL_COMMON_PROCESS_STEADY_TIME_H_
#define SPLITVEIL_COMMON_PROCESS_STEADY_TIME_H_

#include <semaphore.h>

#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace splitveil {

using SteadyTime = std::chrono::steady_clock::time_point;

// Says what time it is; tests pass their own.
using SteadyClock = std::function<SteadyTime()>;

inline SteadyTime SteadyNow() { return std::chrono::steady_clock::now(); }
// `wait` from `start` on; a year at most, so that an infinite wait has an end that can be computed with.
SteadyTime SteadyAfter(absl::Duration wait, SteadyTime start = SteadyNow());
inline double SecondsSince(SteadyTime start) { return std::chrono::duration<double>(SteadyNow() - start).count(); }

// The sleep of one thread, which others may end. The timed waits of absl::Mutex and absl::CondVar follow the wall
// clock: one that is set back by an hour makes 100 ms an hour. Wake is thread-safe; one thread sleeps at a time.
class WakeableSleep {
 public:
  WakeableSleep();
  ~WakeableSleep();
  WakeableSleep(const WakeableSleep&) = delete;
  WakeableSleep& operator=(const WakeableSleep&) = delete;

  // Sleeps until `time` or the next Wake; not at all if one has come since the latest sleep ended. A signal may end
  // it, too: the caller looks again at what it waits for.
  void Until(SteadyTime time);
  void Wake();

 private:
  sem_t wakes_;
};

// A network may stall for seconds while its connections hold: nothing but the wait tells. Not thread-safe.
class UsualWait {
 public:
  // Whether a wait of this many seconds is a stall: five or more, and ten times the mean of those before it, of which
  // there were three at least. What is none counts for the mean.
  bool IsStall(double seconds) {
    if (waits_ >= kLeastWaits && seconds >= kLeastSeconds &&
        seconds * static_cast<double>(waits_) >= kTimesTheMean * total_seconds_) {
      return true;
    }
    ++waits_;
    total_seconds_ += seconds;
    return false;
  }

 private:
  static constexpr int64_t kLeastWaits = 3;
  static constexpr double kLeastSeconds = 5, kTimesTheMean = 10;

  int64_t waits_ = 0;
  double total_seconds_ = 0;
};

// A wait that may be long: a person hears what is waited for, and for how long already. Not thread-safe.
class WaitReminder {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(10);

  // `limit`: how long is waited at most, from `start` on.
  WaitReminder(SteadyTime start, absl::Duration limit, absl::Duration period = kPeriod)
      : start_(start), limit_(limit), period_(period) {}

  // Logs "waiting for WHAT: 20s already, at most 10m" once in each period that has passed.
  void Remind(SteadyTime now, absl::string_view what);

 private:
  SteadyTime start_;
  absl::Duration limit_, period_;
  int64_t reminded_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_STEADY_TIME_H_
