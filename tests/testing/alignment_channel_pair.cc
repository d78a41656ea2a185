#include "tests/testing/alignment_channel_pair.h"

#include <utility>

namespace splitveil {

absl::Status MessagePipe::Push(const v1::AlignmentMessage& message) {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &MessagePipe::CanPush));
  if (closed_) {
    return absl::UnavailableError("stream closed");
  }
  messages_.push_back(message);
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> MessagePipe::Pop() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &MessagePipe::CanPop));
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

}  // namespace splitveil
