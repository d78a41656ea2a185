// The one way to stop a run at the non-label party.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"

namespace splitveil {

// Code that works for long asks between two pieces of work. If the answer is yes, it returns StoppedOnRequest() like
// any other error, and the run ends with that. Thread-safe.
class StopRequest {
 public:
  // `stop`: whether the process is to stop; from any thread.
  explicit StopRequest(bool (*stop)()) : stop_(stop) {}

  // Asks. Once it has been yes it stays so.
  bool Asked();
  // Whether an earlier Asked was yes; asks nobody.
  bool seen() const { return seen_; }
  // Asks: StoppedOnRequest() for yes, else OK.
  absl::Status Check() { return Asked() ? StoppedOnRequest() : absl::OkStatus(); }

 private:
  bool (*const stop_)();
  std::atomic<bool> seen_{false};
};

// Asks `stop` every 100 ms on a thread of its own and calls `cancel` there, once, when it first says yes: a stop flag
// set by a signal can wake nobody. Use from one thread.
class StopWatcher {
 public:
  // `stop`: not owned; must outlive this. Errors: Internal where no thread can be started.
  static absl::StatusOr<std::unique_ptr<StopWatcher>> Create(StopRequest* stop, std::function<void()> cancel);
  ~StopWatcher() { Finish(); }
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  // Ends the watch, after a `cancel` under way; whether `cancel` was called.
  bool Finish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  StopWatcher(StopRequest* stop, std::function<void()> cancel);
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);

  StopRequest* const stop_;
  const std::function<void()> cancel_;
  WakeableSleep sleep_;  // The thread's.
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
