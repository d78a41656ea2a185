#include "common/transport/stream_watchdog.h"

#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/process/steady_time.h"

namespace splitveil {

struct StreamWatchdog::State {
  const absl::Duration limit;
  const std::function<void()> cancel;
  WakeableSleep sleep;  // The thread's.
  mutable absl::Mutex mutex;
  bool armed ABSL_GUARDED_BY(mutex) = false;
  bool idle ABSL_GUARDED_BY(mutex) = false;  // The thread sleeps past any deadline, so Arm has to wake it.
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool expired ABSL_GUARDED_BY(mutex) = false;
  SteadyTime deadline ABSL_GUARDED_BY(mutex);
  std::thread thread;  // Last: its function uses all above.

  State(absl::Duration limit_in, std::function<void()> cancel_in)
      : limit(limit_in), cancel(std::move(cancel_in)), thread([this] { Watch(); }) {}

  void Watch() ABSL_LOCKS_EXCLUDED(mutex) {
    while (const std::optional<SteadyTime> again = CheckExpiry()) {
      sleep.Until(*again);
    }
    if (IsExpired()) {
      cancel();
    }
  }

  // When to look again; nullopt once the time has run out or it is to stop.
  std::optional<SteadyTime> CheckExpiry() ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    expired = expired || (!stopping && armed && SteadyNow() >= deadline);
    idle = !armed;
    if (stopping || expired) {
      return std::nullopt;
    }
    // A later Arm moves the deadline without waking the thread: it finds out when the old one has passed.
    return armed ? deadline : SteadyAfter(absl::InfiniteDuration());
  }

  bool IsExpired() const ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    return expired;
  }
};

StreamWatchdog::StreamWatchdog(absl::Duration limit, std::function<void()> cancel)
    : state_(std::make_unique<State>(limit, std::move(cancel))) {}

StreamWatchdog::~StreamWatchdog() {
  {
    const absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  state_->sleep.Wake();
  state_->thread.join();
}

void StreamWatchdog::Arm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = true;
  state_->deadline = SteadyAfter(state_->limit);
  // Waking a thread at every message would cost a system call each.
  if (state_->idle) {
    state_->idle = false;
    state_->sleep.Wake();
  }
}

void StreamWatchdog::Disarm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = false;
}

bool StreamWatchdog::expired() const { return state_->IsExpired(); }

}  // namespace splitveil
