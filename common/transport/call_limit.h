// How many calls of one method may be under way.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CALL_LIMIT_H_
#define SPLITVEIL_COMMON_TRANSPORT_CALL_LIMIT_H_

#include <atomic>
#include <grpcpp/support/status.h>

#include "absl/strings/str_cat.h"

namespace splitveil {

// A stream holds a thread of the server for as long as its peer likes. Streams that are opened and left alone must not
// take the threads that other methods need, the operator's status among them. Thread-safe.
class CallLimit {
 public:
  explicit CallLimit(int most) : most_(most) {}

  // One call, as long as it lives. The limit must outlive it.
  class Slot {
   public:
    explicit Slot(CallLimit* limit) : limit_(limit), granted_(limit->calls_.fetch_add(1) < limit->most_) {}
    ~Slot() { limit_->calls_.fetch_sub(1); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    bool granted() const { return granted_; }
    // For a call that is not granted. ResourceExhausted, which is no halt.
    grpc::Status Refusal(const char* method) const {
      return grpc::Status(
          grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat(method, ": expected at most ", limit_->most_, " calls at a time, found another"));
    }

   private:
    CallLimit* const limit_;
    const bool granted_;
  };

 private:
  const int most_;
  std::atomic<int> calls_{0};
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CALL_LIMIT_H_
