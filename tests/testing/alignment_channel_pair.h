// Both ends of an alignment stream, in memory: for two parties in one process.
#ifndef SPLITVEIL_TESTS_TESTING_ALIGNMENT_CHANNEL_PAIR_H_
#define SPLITVEIL_TESTS_TESTING_ALIGNMENT_CHANNEL_PAIR_H_

#include <cstddef>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/private_set_intersection.h"

namespace splitveil {

// One direction: holds up to `capacity` messages, as a stream's flow control leaves it. Thread-safe.
class MessagePipe {
 public:
  explicit MessagePipe(size_t capacity) : capacity_(capacity) {}
  // Waits for room. Errors: Unavailable once closed.
  absl::Status Push(const v1::AlignmentMessage& message);
  // Waits for a message. Errors: OutOfRange once closed and empty.
  absl::StatusOr<v1::AlignmentMessage> Pop();
  // Ends the waits of both sides; what was sent can still be received.
  void Close();

 private:
  bool CanPush() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || messages_.size() < capacity_; }
  bool CanPop() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ || !messages_.empty(); }

  const size_t capacity_;
  absl::Mutex mutex_;
  std::deque<v1::AlignmentMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// One end. It has no deadline: the end that gives up closes it, as if the connection were lost. Thread-safe.
class InMemoryAlignmentChannel : public AlignmentChannel {
 public:
  InMemoryAlignmentChannel(std::shared_ptr<MessagePipe> out, std::shared_ptr<MessagePipe> in);
  ~InMemoryAlignmentChannel() override { Close(); }
  absl::Status Send(const v1::AlignmentMessage& message) override { return out_->Push(message); }
  absl::StatusOr<v1::AlignmentMessage> Receive() override { return in_->Pop(); }
  // Closes both directions.
  void Close();

 private:
  std::shared_ptr<MessagePipe> out_;
  std::shared_ptr<MessagePipe> in_;
};

struct AlignmentChannelPair {
  // `capacity`: messages a direction holds before Send waits.
  explicit AlignmentChannelPair(size_t capacity);
  std::unique_ptr<InMemoryAlignmentChannel> first;
  std::unique_ptr<InMemoryAlignmentChannel> second;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_ALIGNMENT_CHANNEL_PAIR_H_
