#include "deploy/operator/bench/message_pipe.h"

#include <utility>

namespace splitveil {

absl::Status MessagePipe::Push(const v1::AlignmentMessage& message) {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &MessagePipe::HasRoom));
  if (closed_) {
    return absl::UnavailableError("closed");
  }
  messages_.push_back(message);
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> MessagePipe::Pop() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &MessagePipe::HasNews));
  if (messages_.empty()) {
    return absl::OutOfRangeError("closed");
  }
  v1::AlignmentMessage message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

void MessagePipe::Close() {
  const absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace splitveil
