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

std::string NameOf(Message::ContentCase content) {
  const auto* const field = Message::descriptor()->FindFieldByNumber(content);
  return field == nullptr ? "no content" : std::string(field->name());
}

const char* NameOf(PointKind kind) { return kind == PointKind::kMasked ? "masked" : "double_masked"; }

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

PeerInbox::PeerInbox(Limits limits) : limits_(std::move(limits)) {
  answer_chunks_.chunks = AnswerChunks(limits_.own_ids, limits_.chunk_ids);
}

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
  // A message of a different run would be answered with points masked by this run's key.
  if (message.run_id() != limits_.run_id) {
    return absl::FailedPreconditionError("alignment message: run_id is of another run");
  }
  switch (message.content_case()) {
    case Message::kSetSize:
    case Message::kMaskedCommitment:
    case Message::kDoubleMaskedCommitment:
      return absl::OkStatus();
    case Message::kMasked:
      return CheckPoints("masked", message.masked());
    case Message::kDoubleMasked:
      return CheckPoints("double_masked", message.double_masked());
    case Message::CONTENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("alignment message: expected set_size, commitments or points, found no content");
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
  // A point with several encodings could pass for several ids, and the identity is itself under every exponent.
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
  const auto content = message.content_case();
  // One message at a time moves the state: whatever is out of turn ends the alignment, and nothing more is answered.
  switch (state_) {
    case State::kSetSize:
      return content == Message::kSetSize ? AcceptSetSize(message.set_size()) : OutOfTurn("set_size", content);
    case State::kMaskedCommitments:
      return content == Message::kMaskedCommitment ? AcceptCommitment(PointKind::kMasked, message.masked_commitment())
                                                   : OutOfTurn("masked_commitment", content);
    case State::kMasked:
      return content == Message::kMasked ? AcceptMasked(message.masked()) : OutOfTurn("masked", content);
    case State::kDoubleMaskedCommitments:
      return content == Message::kDoubleMaskedCommitment
                 ? AcceptCommitment(PointKind::kDoubleMasked, message.double_masked_commitment())
                 : OutOfTurn("double_masked_commitment", content);
    case State::kDoubleMasked:
      return content == Message::kDoubleMasked ? AcceptDoubleMasked(message.double_masked())
                                               : OutOfTurn("double_masked", content);
    case State::kComplete:
      return OutOfTurn("the end of the stream", content);
    case State::kFailed:
      return failure_;
  }
  return absl::InternalError("alignment: unknown state");
}

absl::Status PeerInbox::AcceptSetSize(const Message::SetSize& set_size) {
  // The limit bounds both the memory that a peer can claim and the list of ids that it can try.
  if (set_size.ids() < 1 || set_size.ids() > limits_.max_ids) {
    return absl::InvalidArgumentError(
        absl::StrCat("set_size.ids: expected 1 to ", limits_.max_ids, ", found ", set_size.ids()));
  }
  peer_ids_ = set_size.ids();
  masked_chunks_.chunks = MaskedChunks(peer_ids_, limits_.chunk_ids);
  state_ = State::kMaskedCommitments;
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptCommitment(PointKind kind, const Message::Commitment& commitment) {
  Committed& committed = Of(kind);
  const uint64_t number = committed.commitments.size();
  if (commitment.first_index() != number * committed.chunks.chunk) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), "_commitment.first_index: expected ",
                                                   number * committed.chunks.chunk, ", found ",
                                                   commitment.first_index()));
  }
  Digest digest;
  if (commitment.sha256().size() != digest.size()) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), "_commitment.sha256: expected ", digest.size(),
                                                   " bytes, found ", commitment.sha256().size()));
  }
  std::memcpy(digest.data(), commitment.sha256().data(), digest.size());
  // A commitment sent back opens with our own nonce and points: it would make every id look shared.
  if (number < committed.ours.size() && committed.ours[number] == digest) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), "_commitment: expected one to the peer's own points, found ours sent back"));
  }
  committed.commitments.push_back(digest);
  if (committed.commitments.size() == committed.chunks.count()) {
    state_ = kind == PointKind::kMasked ? State::kMasked : State::kDoubleMasked;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptMasked(const Message::Points& chunk) {
  SPLITVEIL_RETURN_IF_ERROR(CheckChunk(PointKind::kMasked, chunk, masked_chunks_));
  masked_chunks_.received += chunk.points().size() / sizeof(Point);
  AppendPoints(chunk, masked_);
  if (masked_chunks_.received == masked_chunks_.chunks.points) {
    state_ = State::kDoubleMaskedCommitments;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptDoubleMasked(const Message::Points& chunk) {
  SPLITVEIL_RETURN_IF_ERROR(CheckChunk(PointKind::kDoubleMasked, chunk, answer_chunks_));
  answer_chunks_.received += chunk.points().size() / sizeof(Point);
  // Nobody can answer points that were not sent: such answers are made up.
  if (answer_chunks_.received > sent_points_) {
    return absl::FailedPreconditionError(absl::StrCat("double_masked: answers ", answer_chunks_.received,
                                                      " points where only ", sent_points_, " have been sent"));
  }
  double_masked_.reserve(answer_chunks_.chunks.points);  // To grow would take twice the memory for a while.
  AppendPoints(chunk, double_masked_);
  if (answer_chunks_.received == answer_chunks_.chunks.points) {
    state_ = State::kComplete;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::CheckChunk(PointKind kind, const Message::Points& chunk, const Committed& committed) const {
  if (chunk.first_index() != committed.received) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), ".first_index: expected ", committed.received, ", found ", chunk.first_index()));
  }
  const uint64_t count = chunk.points().size() / sizeof(Point);
  const uint64_t due = committed.chunks.SizeAt(committed.received);
  if (count != due) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), ".points: expected ", due, " of ",
                                                   committed.chunks.points, " points in all, found ", count));
  }
  CommitmentNonce nonce;
  if (chunk.nonce().size() != nonce.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), ".nonce: expected ", nonce.size(), " bytes, found ", chunk.nonce().size()));
  }
  std::memcpy(nonce.data(), chunk.nonce().data(), nonce.size());
  // What is opened must be what was committed to before our points were known.
  const Digest& commitment = committed.commitments[committed.received / committed.chunks.chunk];
  if (CommitmentTo(kind, limits_.run_id, committed.received, nonce, chunk.points()) != commitment) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), ".points: expected those that the peer is committed to, found others"));
  }
  return absl::OkStatus();
}

void PeerInbox::Fail(const absl::Status& reason) {
  const absl::MutexLock lock(&mutex_);
  // The first failure is the cause; what follows from it would hide it.
  if (state_ == State::kComplete || state_ == State::kFailed) {
    return;
  }
  state_ = State::kFailed;
  failure_ = reason;
}

void PeerInbox::NoteSent(uint64_t masked_points) {
  const absl::MutexLock lock(&mutex_);
  sent_points_ += masked_points;
}

void PeerInbox::NoteCommitted(PointKind kind, const Digest& commitment) {
  const absl::MutexLock lock(&mutex_);
  Of(kind).ours.push_back(commitment);
}

absl::StatusOr<uint64_t> PeerInbox::WaitForSetSize() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::HasSetSize));
  if (!failure_.ok()) {
    return failure_;
  }
  return peer_ids_;
}

absl::Status PeerInbox::WaitForCommitments(PointKind kind) {
  const absl::MutexLock lock(&mutex_,
                             absl::Condition(this, kind == PointKind::kMasked ? &PeerInbox::HasMaskedCommitments
                                                                              : &PeerInbox::HasAnswerCommitments));
  return failure_;
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

absl::Status PeerInbox::WaitForAnswers(uint64_t points) {
  const absl::MutexLock lock(&mutex_);
  awaited_answers_ = points;
  mutex_.Await(absl::Condition(this, &PeerInbox::HasAwaitedAnswers));
  return failure_;
}

absl::StatusOr<std::vector<Point>> PeerInbox::TakeDoubleMasked() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::IsDone));
  if (!failure_.ok()) {
    return failure_;
  }
  return std::move(double_masked_);
}

std::optional<Point> PeerInbox::Answer(uint64_t index) const {
  const absl::MutexLock lock(&mutex_);
  return index < double_masked_.size() ? std::optional<Point>(double_masked_[index]) : std::nullopt;
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
  return absl::StrCat("after ", masked_chunks_.received, " of ", masked_chunks_.chunks.points, " masked points and ",
                      answer_chunks_.received, " of ", answer_chunks_.chunks.points, " answers");
}

}  // namespace splitveil
