// Notices that a party's own port has stopped accepting connections.
#ifndef SPLITVEIL_COMMON_TRANSPORT_LISTENER_WATCH_H_
#define SPLITVEIL_COMMON_TRANSPORT_LISTENER_WATCH_H_

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"

namespace splitveil {

// Asks every `period`, in a thread of its own, whether the port accepts, and says so in the log when it no longer does
// and when it does again. A run continues: its connection may be well, and a peer that has lost it and finds no way
// back ends the run by the agreement's limits, at both parties. Thread-safe.
class ListenerWatch {
 public:
  // `check`: ConnectionListener::CheckAccepts; must stay callable as long as this lives. `port`: for the log. Without a
  // thread left it watches nothing.
  ListenerWatch(int port, absl::Duration period, std::function<absl::Status()> check);
  ~ListenerWatch();
  ListenerWatch(const ListenerWatch&) = delete;
  ListenerWatch& operator=(const ListenerWatch&) = delete;

 private:
  void Run();

  const int port_;
  const absl::Duration period_;
  const std::function<absl::Status()> check_;
  std::atomic<bool> stopping_{false};
  WakeableSleep sleep_;
  std::thread thread_;  // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_LISTENER_WATCH_H_
