#include "label_party/service/latest_stream.h"

namespace splitveil {

LatestStream::Turn::Turn(LatestStream* latest, grpc::ServerContext* context)
    : latest_(latest), context_(context), number_([latest] {
        const absl::MutexLock lock(&latest->mutex_);
        return ++latest->streams_;
      }()) {}

LatestStream::Turn::~Turn() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (latest_->current_ == context_) {
    latest_->current_ = nullptr;
  }
}

bool LatestStream::Turn::BeginRead() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (latest_->current_ == context_) {
    latest_->reading_ = true;
  }
  return !latest_->ended_;
}

void LatestStream::Turn::EndRead() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (latest_->current_ == context_) {
    latest_->reading_ = false;
  }
}

bool LatestStream::Turn::overtakes() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return latest_->current_ != nullptr && number_ > latest_->accepted_;
}

bool LatestStream::Turn::overtaken() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return number_ < latest_->accepted_;
}

bool LatestStream::Turn::Accepted() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (number_ < latest_->accepted_) {
    return false;
  }
  if (latest_->current_ == context_) {
    return true;
  }
  if (latest_->current_ != nullptr) {
    latest_->current_->TryCancel();
  }
  latest_->current_ = context_;
  latest_->accepted_ = number_;
  latest_->reading_ = false;
  return true;
}

bool LatestStream::Turn::counts() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return latest_->current_ == context_;
}

void LatestStream::End() {
  const absl::MutexLock lock(&mutex_);
  ended_ = true;
  if (current_ != nullptr && reading_) {
    current_->TryCancel();
  }
}

}  // namespace splitveil
