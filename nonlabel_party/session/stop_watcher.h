// Ends a long blocking operation when the process is asked to stop.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"

namespace splitveil {

// Asks `stop` every 100 ms on a thread of its own and calls `cancel` there, once, when it first says true: a stop flag
// set by a signal can wake nobody. Use from one thread.
class StopWatcher {
 public:
  // Internal where no thread can be started.
  static absl::StatusOr<std::unique_ptr<StopWatcher>> Create(bool (*stop)(), std::function<void()> cancel);
  ~StopWatcher() { Finish(); }
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  // Ends the watch, after a `cancel` under way; whether `cancel` was called.
  bool Finish();

 private:
  StopWatcher(bool (*stop)(), std::function<void()> cancel);
  void Watch();

  bool (*const stop_)();
  const std::function<void()> cancel_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;   // Guarded by mutex_.
  bool cancelled_ = false;  // Of the thread until it is joined.
  std::thread thread_;      // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_WATCHER_H_
