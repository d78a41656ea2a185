#include "common/transport/stream_watchdog.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace splitveil {
namespace {

using Clock = std::chrono::steady_clock;

// Longer limits mean "never"; bounded so that now + limit does not overflow.
constexpr absl::Duration kMaxLimit = absl::Hours(24 * 365);

}  // namespace

// std::mutex rather than absl::Mutex: ThreadSanitizer understands it without annotations in the distribution's Abseil.
struct StreamWatchdog::State {
  const Clock::duration limit;
  const std::function<void()> cancel;
  mutable std::mutex mutex;
  std::condition_variable changed;
  // All below: guarded by mutex.
  bool armed = false;
  bool idle = false;  // The thread waits without a timeout, so Arm has to wake it.
  bool stopping = false;
  bool expired = false;
  Clock::time_point deadline;
  std::thread thread;  // Last: its function uses all above. Not guarded.

  State(Clock::duration limit_in, std::function<void()> cancel_in)
      : limit(limit_in), cancel(std::move(cancel_in)), thread([this] { Run(); }) {}

  void Run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!stopping && !expired) {
      if (!armed) {
        idle = true;
        changed.wait(lock);
        idle = false;
      } else if (Clock::now() < deadline) {
        // A later Arm moves the deadline without waking the thread: it finds out when the old one has passed.
        const Clock::time_point until = deadline;
        changed.wait_until(lock, until);
      } else {
        expired = true;
      }
    }
    if (expired) {
      lock.unlock();
      cancel();
    }
  }
};

StreamWatchdog::StreamWatchdog(absl::Duration limit, std::function<void()> cancel)
    : state_(std::make_unique<State>(
          std::chrono::duration_cast<Clock::duration>(absl::ToChronoNanoseconds(std::min(limit, kMaxLimit))),
          std::move(cancel))) {}

StreamWatchdog::~StreamWatchdog() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_one();
  state_->thread.join();
}

void StreamWatchdog::Arm() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->armed = true;
  state_->deadline = Clock::now() + state_->limit;
  if (state_->idle) {
    state_->changed.notify_one();
  }
}

void StreamWatchdog::Disarm() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->armed = false;
}

bool StreamWatchdog::expired() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->expired;
}

}  // namespace splitveil
