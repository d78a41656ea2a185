#include "tests/testing/alignment_channel_pair.h"

#include <chrono>
#include <utility>

namespace splitveil::testing {
namespace {

// No test waits this long unless two ends wait for each other.
constexpr std::chrono::seconds kDeadline(20);

}  // namespace

absl::Status MessagePipe::Push(const v1::AlignmentMessage& message) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, kDeadline, [this] { return closed_ || messages_.size() < capacity_; })) {
    return absl::DeadlineExceededError("peer does not read");
  }
  if (closed_) {
    return absl::UnavailableError("stream closed");
  }
  messages_.push_back(message);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> MessagePipe::Pop() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, kDeadline, [this] { return closed_ || !messages_.empty(); })) {
    return absl::DeadlineExceededError("peer does not send");
  }
  if (messages_.empty()) {
    return absl::OutOfRangeError("stream closed");
  }
  v1::AlignmentMessage message = std::move(messages_.front());
  messages_.pop_front();
  changed_.notify_all();
  return message;
}

void MessagePipe::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  changed_.notify_all();
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
