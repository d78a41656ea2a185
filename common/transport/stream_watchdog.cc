#include "common/transport/stream_watchdog.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace splitveil {
namespace {

// The wall clock may be set while a stream is silent; whether a deadline has passed must not depend on it.
using Clock = std::chrono::steady_clock;

// Longer limits mean "never"; bounded so that now + limit does not overflow.
constexpr absl::Duration kMaxLimit = absl::Hours(24 * 365);

}  // namespace

struct StreamWatchdog::State {
  const Clock::duration limit;
  const std::function<void()> cancel;
  mutable absl::Mutex mutex;
  absl::CondVar changed;
  bool armed ABSL_GUARDED_BY(mutex) = false;
  bool idle ABSL_GUARDED_BY(mutex) = false;  // The thread waits without a timeout, so Arm has to wake it.
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool expired ABSL_GUARDED_BY(mutex) = false;
  Clock::time_point deadline ABSL_GUARDED_BY(mutex);
  std::thread thread;  // Last: its function uses all above.

  State(Clock::duration limit_in, std::function<void()> cancel_in)
      : limit(limit_in), cancel(std::move(cancel_in)), thread([this] {
          if (WaitForExpiry()) {
            cancel();
          }
        }) {}

  // True once the time has run out, false where it is to stop before.
  bool WaitForExpiry() {
    const absl::MutexLock lock(&mutex);
    while (!stopping && !expired) {
      const Clock::time_point now = Clock::now();
      if (!armed) {
        idle = true;
        changed.Wait(&mutex);
        idle = false;
      } else if (now < deadline) {
        // A later Arm moves the deadline without waking the thread: it finds out when the old one has passed.
        changed.WaitWithTimeout(&mutex, absl::FromChrono(deadline - now));
      } else {
        expired = true;
      }
    }
    return expired;
  }
};

StreamWatchdog::StreamWatchdog(absl::Duration limit, std::function<void()> cancel)
    : state_(std::make_unique<State>(
          std::chrono::duration_cast<Clock::duration>(absl::ToChronoNanoseconds(std::min(limit, kMaxLimit))),
          std::move(cancel))) {}

StreamWatchdog::~StreamWatchdog() {
  {
    const absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  state_->changed.Signal();
  state_->thread.join();
}

void StreamWatchdog::Arm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = true;
  state_->deadline = Clock::now() + state_->limit;
  if (state_->idle) {
    state_->changed.Signal();
  }
}

void StreamWatchdog::Disarm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = false;
}

bool StreamWatchdog::expired() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->expired;
}

}  // namespace splitveil
