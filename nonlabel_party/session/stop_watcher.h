// Ends a long blocking operation when the process is asked to stop.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/process/steady_time.h"
#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

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

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_
