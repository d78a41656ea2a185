#include "tests/testing/alignment_channel_pair.h"

#include <utility>

#include "absl/time/time.h"

namespace splitveil::testing {
namespace {

// No test waits this long unless two ends wait for each other.
constexpr absl::Duration kDeadline = absl::Seconds(20);

}  // namespace

absl::Status MessagePipe::Push(const v1::AlignmentMessage& message) {
  const absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(this, &MessagePipe::CanPush), kDeadline)) {
    return absl::DeadlineExceededError("peer does not read");
  }
  if (closed_) {
    return absl::UnavailableError("stream closed");
  }
  messages_.push_back(message);
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> MessagePipe::Pop() {
  const absl::MutexLock lock(&mutex_);
  if (!mutex_.AwaitWithTimeout(absl::Condition(this, &MessagePipe::CanPop), kDeadline)) {
    return absl::DeadlineExceededError("peer does not send");
  }
  if (messages_.empty()) {
    return absl::OutOfRangeError("stream closed");
  }
  v1::AlignmentMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void MessagePipe::Close() {
  const absl::MutexLock lock(&mutex_);
  closed_ = true;
}

InMemoryAlignmentChannel::InMemoryAlignmentChannel(std::shared_ptr<MessagePipe> out, std::shared_ptr<MessagePipe> in)
    : out_(std::move(out)), in_(std::move(in)) {}

void InMemoryAlignmentChannel::Close() {
  out_->Close();
  in_->Close();
}

AlignmentChannelPair::AlignmentChannelPair(size_t capacity) {
  auto forward = std::make_shared<MessagePipe>(capacity);
  auto backward = std::make_shared<MessagePipe>(capacity);
  first = std::make_unique<InMemoryAlignmentChannel>(forward, backward);
  second = std::make_unique<InMemoryAlignmentChannel>(backward, forward);
}

}  // namespace splitveil::testing
