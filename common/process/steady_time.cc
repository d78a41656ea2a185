#include "common/process/steady_time.h"

#include <algorithm>
#include <ctime>

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);

}  // namespace

SteadyTime SteadyAfter(absl::Duration wait, SteadyTime start) {
  return start +
         std::chrono::duration_cast<SteadyTime::duration>(absl::ToChronoNanoseconds(std::min(wait, kLongestWait)));
}

void WaitReminder::Remind(SteadyTime now, absl::string_view what) {
  const absl::Duration waited = absl::FromChrono(now - start_);
  if (const int64_t periods = waited / period_; periods > reminded_) {
    reminded_ = periods;
    LogInfo("waiting for ", what, ": ", absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))),
            " already, at most ", absl::FormatDuration(limit_));
  }
}

// A count that no process shares and that begins at 0 cannot fail to be made.
WakeableSleep::WakeableSleep() { sem_init(&wakes_, 0, 0); }
WakeableSleep::~WakeableSleep() { sem_destroy(&wakes_); }

void WakeableSleep::Until(SteadyTime time) {
  const auto since_boot = std::max(time.time_since_epoch(), SteadyTime::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  timespec until = {};
  until.tv_sec = static_cast<time_t>(seconds.count());
  until.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot - seconds).count();
  if (sem_clockwait(&wakes_, CLOCK_MONOTONIC, &until) == 0) {
    while (sem_trywait(&wakes_) == 0) {  // Several calls of Wake end one sleep.
    }
  }
}

void WakeableSleep::Wake() { sem_post(&wakes_); }

}  // namespace splitveil
