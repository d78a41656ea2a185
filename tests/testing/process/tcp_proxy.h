// A TCP connection's worst day: between two programs, and breaks what passes.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_TCP_PROXY_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_TCP_PROXY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace splitveil::testing {

// Listens on a free port of 127.0.0.1 and forwards to another one, on a thread of its own. Thread-safe.
class TcpProxy {
 public:
  // What passes arrives so much later, in either direction, however much there is of it: a round trip takes twice that.
  explicit TcpProxy(absl::Duration delay = absl::ZeroDuration());
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  enum class FaultKind {
    kCut,        // All connections are reset.
    kCorrupt,    // One bit of what passes is another: TLS finds out.
    kDuplicate,  // What passes comes twice, likewise.
    kDelay,      // Nothing passes for a while.
    kDown,       // All connections are reset, and every new one until SetDown(false).
  };
  struct Fault {
    int64_t after_bytes = 0;  // That have passed since the fault before, in either direction.
    FaultKind kind = FaultKind::kCut;
    int delay_millis = 0;  // Of kDelay.
  };

  int port() const { return port_; }
  // Where connections go from now on; before: nowhere, they are closed.
  void ForwardTo(int port) { target_ = port; }
  // What happens from now on, one after the other.
  void FaultAfter(const std::vector<Fault>& faults) ABSL_LOCKS_EXCLUDED(mutex_);
  // Resets all connections each time that another one of `bytes` has passed, in either direction.
  void CutAfter(const std::vector<int64_t>& bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Resets all connections once so many bytes have passed, in either direction, and every new one until SetDown(false):
  // what a test then kills has got no further, however late the test comes.
  void GoDownAfter(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) { FaultAfter({{bytes, FaultKind::kDown}}); }
  // Resets all connections, and every new one for as long as it is down.
  void SetDown(bool down) { down_ = down; }
  // From now on nothing passes on the connections that there are, and neither end is told. New ones work.
  void FreezeConnections() { freeze_ = true; }

  int cuts() const { return cuts_; }
  // Waits for the first, two minutes at most; false: none has come.
  bool WaitForCut() const;
  // All that FaultAfter and CutAfter asked for and that has happened.
  int faults() const { return faults_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Passing {
    Clock::time_point due;
    std::string bytes;
  };
  struct Side {
    int descriptor = -1;
    std::deque<Passing> to_write;
    size_t to_write_bytes = 0;
  };
  struct Connection {
    Side sides[2];
    bool frozen = false;
  };

  void Run();
  // Waits until there is something to do, but not for long.
  void Wait() const;
  void Accept();
  // Moves what there is to move; whether the connection is still there.
  bool Forward(Connection& connection);
  bool ForwardOne(Side& from, Side& to);
  static bool Flush(Side& side);
  // Does to `passing` what is due.
  void Disturb(std::string& passing) ABSL_LOCKS_EXCLUDED(mutex_);
  static void Reset(Connection& connection);

  const Clock::duration delay_;
  const size_t most_waiting_bytes_;  // What one direction may hold when more is read.
  int listener_ = -1, port_ = 0;
  std::atomic<int> target_{0}, cuts_{0}, faults_{0};
  std::atomic<bool> down_{false}, freeze_{false}, stopped_{false};
  bool cut_due_ = false;  // Of the thread alone, as the connections.
  std::list<Connection> connections_;
  absl::Mutex mutex_;
  std::deque<Fault> due_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Last: uses all above.
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_TCP_PROXY_H_
