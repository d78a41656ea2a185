// A deadline for each message of a stream: gRPC knows only one for the whole.
#ifndef SPLITVEIL_COMMON_TRANSPORT_STREAM_WATCHDOG_H_
#define SPLITVEIL_COMMON_TRANSPORT_STREAM_WATCHDOG_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"

namespace splitveil {

// Calls `cancel` (for example context.TryCancel) once if the time between Arm and Disarm exceeds `limit`. Thread-safe.
// `cancel` runs on the watchdog's thread, without a lock held, and may call the watchdog; the destructor waits for it.
// One thread per watchdog, which wakes about once per `limit`, not per message.
class StreamWatchdog {
 public:
  StreamWatchdog(absl::Duration limit, std::function<void()> cancel);
  ~StreamWatchdog();
  StreamWatchdog(const StreamWatchdog&) = delete;
  StreamWatchdog& operator=(const StreamWatchdog&) = delete;

  // Restarts the time, even if it runs already.
  void Arm();
  void Disarm();
  // Whether it has fired.
  bool expired() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_STREAM_WATCHDOG_H_
