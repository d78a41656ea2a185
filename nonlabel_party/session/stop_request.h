// The one way to stop a run at the non-label party.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_

#include <atomic>

#include "absl/status/status.h"

#include "common/process/exit_code.h"

namespace splitveil {

// Whoever works for long asks between two pieces of work and, where the answer is yes, returns StoppedOnRequest() as
// any other error, with which the run then ends. Thread-safe.
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

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
