#include "common/alignment/peer_inbox.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/alignment/parallel_for.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;

const char* NameOf(Message::ContentCase content) {
  switch (content) {
    case Message::kSetSize:
      return "set_size";
    case Message::kMasked:
      return "masked";
    case Message::kDoubleMasked:
      return "double_masked";
    case Message::CONTENT_NOT_SET:
      break;
  }
  return "no content";
}

absl::Status OutOfTurn(const char* expected, Message::ContentCase actual) {
  return absl::FailedPreconditionError(
      absl::StrCat("alignment message out of turn: expected ", expected, ", found ", NameOf(actual)));
}

// The bytes of `chunk` are whole points.
template <typename Points>
void AppendPoints(const Message::Points& chunk, Points& points) {
  const std::string& bytes = chunk.points();
  for (size_t start = 0; start < bytes.size(); start += sizeof(Point)) {
    std::memcpy(points.emplace_back().data(), bytes.data() + start, sizeof(Point));
  }
}

}  // namespace

absl::Status PeerInbox::Accept(const Message& message) {
  // Decoding points is the slow part and needs no state: the protocol's thread keeps going meanwhile.
  absl::Status status = CheckForm(message);
  const absl::MutexLock lock(&mutex_);
  if (status.ok()) {
    status = Advance(message);
  }
  if (!status.ok()) {
    state_ = State::kFailed;
    failure_.Update(status);
  }
  return status;
}

absl::Status PeerInbox::CheckForm(const Message& message) const {
  if (message.run_id() != limits_.run_id) {
    return absl::FailedPreconditionError("alignment message: run_id is of another run");
  }
  switch (message.content_case()) {
    case Message::kSetSize:
      return absl::OkStatus();
    case Message::kMasked:
      return CheckPoints("masked", message.masked());
    case Message::kDoubleMasked:
      return CheckPoints("double_masked", message.double_masked());
    case Message::CONTENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("alignment message: expected set_size, masked or double_masked, found no content");
}

absl::Status PeerInbox::CheckPoints(const char* field, const Message::Points& chunk) const {
  const std::string& bytes = chunk.points();
  if (bytes.empty() || bytes.size() % sizeof(Point) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".points: expected a positive multiple of ", sizeof(Point),
                                                   " bytes, found ", bytes.size()));
  }
  const uint64_t count = bytes.size() / sizeof(Point);
  if (count > limits_.chunk_ids) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".points: expected at most ", limits_.chunk_ids, " points, found ", count));
  }
  std::atomic<uint64_t> unusable{0};
  ParallelFor(count, limits_.threads, [&](size_t i) {
    Point point;
    std::memcpy(point.data(), bytes.data() + i * sizeof(Point), sizeof(Point));
    unusable += IsUsablePoint(point) ? 0 : 1;
  });
  if (unusable > 0) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".points: expected canonical ristretto255 points other than ",
                                                   "the identity, found ", unusable.load(), " others in ", count));
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::Advance(const Message& message) {
  switch (state_) {
    case State::kSetSize:
      if (!message.has_set_size()) {
        return OutOfTurn("set_size", message.content_case());
      }
      return AcceptSetSize(message.set_size());
    case State::kMasked:
      if (!message.has_masked()) {
        return OutOfTurn("masked", message.content_case());
      }
      return AcceptMasked(message.masked());
    case State::kDoubleMasked:
      if (!message.has_double_masked()) {
        return OutOfTurn("double_masked", message.content_case());
      }
      return AcceptDoubleMasked(message.double_masked());
    case State::kComplete:
      return OutOfTurn("the end of the stream", message.content_case());
    case State::kFailed:
      return failure_;
  }
  return absl::InternalError("alignment: unknown state");
}

absl::Status PeerInbox::AcceptSetSize(const Message::SetSize& set_size) {
  if (set_size.ids() < 1 || set_size.ids() > limits_.max_ids) {
    return absl::InvalidArgumentError(
        absl::StrCat("set_size.ids: expected 1 to ", limits_.max_ids, ", found ", set_size.ids()));
  }
  peer_ids_ = set_size.ids();
  state_ = State::kMasked;
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptMasked(const Message::Points& chunk) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOrder("masked", chunk, masked_ids_, peer_ids_));
  masked_ids_ += chunk.points().size() / sizeof(Point);
  AppendPoints(chunk, masked_);
  if (masked_ids_ == peer_ids_) {
    state_ = State::kDoubleMasked;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptDoubleMasked(const Message::Points& chunk) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOrder("double_masked", chunk, double_masked_.size(), limits_.own_ids));
  double_masked_.reserve(limits_.own_ids);  // To grow would take twice the memory for a while.
  AppendPoints(chunk, double_masked_);
  if (double_masked_.size() > sent_ids_) {
    return absl::FailedPreconditionError(absl::StrCat("double_masked: answers ", double_masked_.size(),
                                                      " ids where only ", sent_ids_, " have been sent"));
  }
  if (double_masked_.size() == limits_.own_ids) {
    state_ = State::kComplete;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::CheckOrder(const char* field, const Message::Points& chunk, uint64_t received, uint64_t owed) {
  const uint64_t count = chunk.points().size() / sizeof(Point);
  if (chunk.first_index() != received) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".first_index: expected ", received, ", found ", chunk.first_index()));
  }
  if (count > owed - received) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".points: expected ", owed, " points in all, found ", received + count));
  }
  return absl::OkStatus();
}

void PeerInbox::Fail(const absl::Status& reason) {
  const absl::MutexLock lock(&mutex_);
  if (state_ == State::kComplete || state_ == State::kFailed) {
    return;
  }
  state_ = State::kFailed;
  failure_ = reason;
}

void PeerInbox::NoteSent(uint64_t masked_ids) {
  const absl::MutexLock lock(&mutex_);
  sent_ids_ += masked_ids;
}

absl::StatusOr<uint64_t> PeerInbox::WaitForSetSize() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::HasSetSize));
  if (!failure_.ok()) {
    return failure_;
  }
  return peer_ids_;
}

absl::StatusOr<std::vector<Point>> PeerInbox::TakeMasked(uint64_t max_points) {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::HasMaskedOrNoMore));
  if (!failure_.ok()) {
    return failure_;
  }
  const auto end = masked_.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(max_points, masked_.size()));
  std::vector<Point> points(masked_.begin(), end);
  masked_.erase(masked_.begin(), end);
  return points;
}

absl::StatusOr<std::vector<Point>> PeerInbox::TakeDoubleMasked() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::IsDone));
  if (!failure_.ok()) {
    return failure_;
  }
  return std::move(double_masked_);
}

PeerInbox::State PeerInbox::state() const {
  const absl::MutexLock lock(&mutex_);
  return state_;
}

absl::Status PeerInbox::failure() const {
  const absl::MutexLock lock(&mutex_);
  return failure_;
}

std::string PeerInbox::Progress() const {
  const absl::MutexLock lock(&mutex_);
  if (state_ == State::kSetSize) {
    return "before its set size";
  }
  return absl::StrCat("after ", masked_ids_, " of ", peer_ids_, " masked ids and ", double_masked_.size(), " of ",
                      limits_.own_ids, " answers");
}

}  // namespace splitveil
