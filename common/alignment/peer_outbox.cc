#include "common/alignment/peer_outbox.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// What waits must take little memory beside a bucket; at 100 Mbit/s this many messages take the link 0.2 s.
constexpr size_t kMostEntries = 16;

}  // namespace

PeerOutbox::PeerOutbox(AlignmentChannel* channel) : channel_(channel), thread_([this] { SendAll(); }) {}

PeerOutbox::~PeerOutbox() {
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = dropping_ = true;
  }
  thread_.join();
}

absl::Status PeerOutbox::Put(v1::AlignmentMessage message) {
  return Put([left = std::optional(std::move(message))]() mutable { return std::exchange(left, std::nullopt); });
}

absl::Status PeerOutbox::Put(Messages messages) {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerOutbox::HasRoom));
  SPLITVEIL_RETURN_IF_ERROR(failure_);
  entries_.push_back(std::move(messages));
  return absl::OkStatus();
}

absl::Status PeerOutbox::Flush() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerOutbox::IsIdle));
  return failure_;
}

void PeerOutbox::Clear() {
  const absl::MutexLock lock(&mutex_);
  entries_.clear();
  dropping_ = busy_;
}

bool PeerOutbox::HasRoom() const { return !failure_.ok() || entries_.size() < kMostEntries; }

bool PeerOutbox::Take(Messages* entry) {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerOutbox::HasWork));
  if (ending_) {
    return false;
  }
  *entry = std::move(entries_.front());
  entries_.pop_front();
  busy_ = true;
  return true;
}

bool PeerOutbox::IsDropped() {
  const absl::MutexLock lock(&mutex_);
  return dropping_;
}

absl::Status PeerOutbox::Send(const Messages& entry) {
  try {
    for (auto message = entry(); message.has_value() && !IsDropped(); message = entry()) {
      SPLITVEIL_RETURN_IF_ERROR(channel_->Send(*message));
    }
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("alignment: out of memory: ", error.what()));
  }
  return absl::OkStatus();
}

void PeerOutbox::SendAll() {
  for (Messages entry; Take(&entry);) {
    const absl::Status status = Send(entry);
    const absl::MutexLock lock(&mutex_);
    busy_ = dropping_ = false;
    if (!status.ok()) {
      failure_ = status;
      return;
    }
  }
}

}  // namespace splitveil
