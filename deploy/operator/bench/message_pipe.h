// Two parties of an alignment in one process: each one's messages reach the other through memory.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_MESSAGE_PIPE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_MESSAGE_PIPE_H_

#include <cstddef>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/private_set_intersection.h"

namespace splitveil {

// One direction, with room for a few messages, as a stream's flow control leaves it. Thread-safe.
class MessagePipe {
 public:
  // Waits for room. Errors: Unavailable once closed.
  absl::Status Push(const v1::AlignmentMessage& message);
  // Waits for a message. Errors: OutOfRange once closed and empty.
  absl::StatusOr<v1::AlignmentMessage> Pop();
  // Ends the waits of both sides; what was sent can still be received.
  void Close();

 private:
  static constexpr size_t kCapacity = 16;

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || messages_.size() < kCapacity; }
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !messages_.empty(); }

  absl::Mutex mutex_;
  std::deque<v1::AlignmentMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// One party's end. Thread-safe as the pipes are.
class PipeChannel : public AlignmentChannel {
 public:
  // The pipes: not owned; must outlive this.
  PipeChannel(MessagePipe* out, MessagePipe* in) : out_(out), in_(in) {}
  absl::Status Send(const v1::AlignmentMessage& message) override { return out_->Push(message); }
  absl::StatusOr<v1::AlignmentMessage> Receive() override { return in_->Pop(); }

 private:
  MessagePipe* out_;
  MessagePipe* in_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_MESSAGE_PIPE_H_
