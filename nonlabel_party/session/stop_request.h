// The one way to stop a run at the non-label party.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_

#include <atomic>

#include "absl/status/status.h"

namespace splitveil {

// Whoever works for long asks between two pieces of work and, where the answer is yes, returns StoppedOnRequest() as
// any other error; the session alone turns that into a clean end of the run. Thread-safe.
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

  // Cancelled, told apart from a Cancelled of the peer's by a payload.
  static absl::Status StoppedOnRequest();
  static bool IsStoppedOnRequest(const absl::Status& status);

 private:
  bool (*const stop_)();
  std::atomic<bool> seen_{false};
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOP_REQUEST_H_
