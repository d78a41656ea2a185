#include "common/alignment/peer_inbox.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
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

PeerInbox::PeerInbox(Limits limits) : limits_(std::move(limits)), bound_run_(limits_.run_id) {}

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
    case Message::kBucketKey:
    case Message::kMaskedCommitment:
    case Message::kDoubleMaskedCommitment:
    case Message::kOutcome:
      return absl::OkStatus();
    case Message::kMasked:
      return CheckPoints("masked", message.masked());
    case Message::kDoubleMasked:
      return CheckPoints("double_masked", message.double_masked());
    case Message::CONTENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "alignment message: expected set_size, bucket_key, commitments, points or outcome, found no content");
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
  const uint64_t unusable = CountUnusablePoints({reinterpret_cast<const Point*>(bytes.data()), count}, limits_.threads);
  if (unusable > 0) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".points: expected canonical ristretto255 points other than ",
                                                   "the identity, found ", unusable, " others in ", count));
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::Advance(const Message& message) {
  const auto content = message.content_case();
  // One message at a time moves the state: whatever is out of turn ends the alignment, and nothing more is answered.
  switch (state_) {
    case State::kSetSize:
      return content == Message::kSetSize ? AcceptSetSize(message.set_size()) : OutOfTurn("set_size", content);
    case State::kBucketKey:
      return content == Message::kBucketKey ? AcceptBucketKey(message.bucket_key()) : OutOfTurn("bucket_key", content);
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
    case State::kOutcome:
      return content == Message::kOutcome ? AcceptOutcome(message.outcome()) : OutOfTurn("outcome", content);
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
  buckets_ = SplitIntoBuckets(limits_.own_ids, peer_ids_, limits_.bucket_ids);
  masked_chunks_.chunks = MaskedChunks(buckets_.peer_capacity, limits_.chunk_ids);
  answer_chunks_.chunks = AnswerChunks(buckets_.own_capacity, limits_.chunk_ids, buckets_.count);
  state_ = State::kMaskedCommitments;
  const std::optional<Resumable>& ours = limits_.resumable;
  if (ours.has_value() && set_size.resumes().name() == AsBytes(ours->name)) {
    return Resume(set_size.resumes().next_bucket());
  }
  if (buckets_.count == 1) {
    return absl::OkStatus();
  }
  if (set_size.bucket_key_commitment().size() != key_commitment_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("set_size.bucket_key_commitment: expected ", key_commitment_.size(),
                                                   " bytes, found ", set_size.bucket_key_commitment().size()));
  }
  std::memcpy(key_commitment_.data(), set_size.bucket_key_commitment().data(), key_commitment_.size());
  if (key_commitment_ == limits_.own_key_commitment) {
    return absl::InvalidArgumentError("set_size.bucket_key_commitment: the peer sent our own back");
  }
  state_ = State::kBucketKey;
  return absl::OkStatus();
}

absl::Status PeerInbox::Resume(uint64_t peer_next_bucket) {
  const Resumable& ours = *limits_.resumable;
  // It is committed to the points of a set of this size.
  if (peer_ids_ != ours.peer_ids) {
    return absl::FailedPreconditionError(
        absl::StrCat("set_size.ids: expected ", ours.peer_ids, " as before the interruption, found ", peer_ids_));
  }
  // Neither finishes a bucket before the other has finished the one before it.
  if (peer_next_bucket > ours.next_bucket + 1 || peer_next_bucket > buckets_.count) {
    return absl::FailedPreconditionError(absl::StrCat("set_size.resumes.next_bucket: expected at most ",
                                                      std::min(ours.next_bucket + 1, buckets_.count), ", found ",
                                                      peer_next_bucket));
  }
  bound_run_ = ours.run_id;
  resumed_ = std::min(peer_next_bucket, ours.next_bucket);
  current_ = *resumed_;
  answer_chunks_.first_number = current_ * answer_chunks_.chunks.count();
  masked_chunks_.received = current_ * masked_chunks_.chunks.points;
  answer_chunks_.received = sent_points_ = current_ * answer_chunks_.chunks.points;
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptBucketKey(const Message::BucketKey& key) {
  if (key.half().size() != key_half_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket_key.half: expected ", key_half_.size(), " bytes, found ", key.half().size()));
  }
  std::memcpy(key_half_.data(), key.half().data(), key_half_.size());
  // A half that is chosen by ours could crowd some of our ids into one bucket.
  if (CommitmentToHalf(limits_.run_id, key_half_) != key_commitment_) {
    return absl::InvalidArgumentError("bucket_key.half: is not the half that the peer committed to");
  }
  state_ = State::kMaskedCommitments;
  return absl::OkStatus();
}

void PeerInbox::BeginBucket(uint64_t bucket) {
  bucket_ = bucket;
  state_ = bucket == buckets_.count ? State::kOutcome : State::kMasked;
}

absl::Status PeerInbox::AcceptCommitment(PointKind kind, const Message::Commitment& commitment) {
  Committed& committed = Of(kind);
  const uint64_t number = committed.commitments.size();
  const uint64_t first = committed.chunks.FirstOf(committed.first_number + number);
  // Nobody can answer points that were not sent.
  if (kind == PointKind::kDoubleMasked && first + committed.chunks.SizeAt(first) > sent_points_) {
    return absl::FailedPreconditionError(absl::StrCat("double_masked_commitment: it is to answers from ", first,
                                                      " on where only ", sent_points_, " points have been sent"));
  }
  if (commitment.first_index() != first) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), "_commitment.first_index: expected ", first, ", found ", commitment.first_index()));
  }
  Digest digest;
  if (commitment.sha256().size() != digest.size()) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), "_commitment.sha256: expected ", digest.size(),
                                                   " bytes, found ", commitment.sha256().size()));
  }
  std::memcpy(digest.data(), commitment.sha256().data(), digest.size());
  // A commitment sent back opens with our own nonce and points: it would make every id look shared.
  if (number < committed.ours.size() && committed.ours[number] == digest) {
    return absl::InvalidArgumentError(absl::StrCat(NameOf(kind), "_commitment: the peer sent our own commitment back"));
  }
  committed.commitments.push_back(digest);
  const bool masked = kind == PointKind::kMasked;
  if (number + 1 == committed.chunks.count() * (masked ? buckets_.count : 1)) {
    Sha256Hasher all;
    for (const Digest& each : committed.commitments) {
      all.Update(AsBytes(each));
    }
    committed.sha256 = all.Finish();
    if (masked) {
      BeginBucket(current_);
    } else {
      state_ = State::kDoubleMasked;
    }
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptMasked(const Message::Points& chunk) {
  SPLITVEIL_RETURN_IF_ERROR(CheckChunk(PointKind::kMasked, chunk, masked_chunks_));
  masked_chunks_.received += chunk.points().size() / sizeof(Point);
  AppendPoints(chunk, masked_);
  if (masked_chunks_.received % masked_chunks_.chunks.points == 0) {
    state_ = State::kDoubleMaskedCommitments;
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptDoubleMasked(const Message::Points& chunk) {
  // A peer that keeps to the protocol waits for our commitments, which we send once those of the bucket before are
  // read.
  if (bucket_ > current_) {
    return absl::FailedPreconditionError("double_masked: it came before our commitments of the bucket");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckChunk(PointKind::kDoubleMasked, chunk, answer_chunks_));
  answer_chunks_.received += chunk.points().size() / sizeof(Point);
  double_masked_.reserve(answer_chunks_.chunks.points);  // To grow would take twice the memory for a while.
  AppendPoints(chunk, double_masked_);
  if (answer_chunks_.received % answer_chunks_.chunks.points == 0) {
    answer_chunks_.first_number += answer_chunks_.commitments.size();
    answer_chunks_.commitments.clear();
    BeginBucket(bucket_ + 1);
  }
  return absl::OkStatus();
}

absl::Status PeerInbox::AcceptOutcome(const Message::Outcome& outcome) {
  if (outcome.order_sha256().size() != outcome_.order_sha256.size()) {
    return absl::InvalidArgumentError(absl::StrCat("outcome.order_sha256: expected ", outcome_.order_sha256.size(),
                                                   " bytes, found ", outcome.order_sha256().size()));
  }
  outcome_.shared_ids = outcome.shared_ids();
  std::memcpy(outcome_.order_sha256.data(), outcome.order_sha256().data(), outcome_.order_sha256.size());
  state_ = State::kComplete;
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
                                                   committed.chunks.points, " points in the bucket, found ", count));
  }
  CommitmentNonce nonce;
  if (chunk.nonce().size() != nonce.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(kind), ".nonce: expected ", nonce.size(), " bytes, found ", chunk.nonce().size()));
  }
  std::memcpy(nonce.data(), chunk.nonce().data(), nonce.size());
  // What is opened must be what was committed to before our points were known.
  const Digest& commitment =
      committed.commitments[committed.chunks.NumberOf(committed.received) - committed.first_number];
  if (CommitmentTo(kind, bound_run_, committed.received, nonce, chunk.points()) != commitment) {
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

std::optional<uint64_t> PeerInbox::ResumedBucket() const {
  const absl::MutexLock lock(&mutex_);
  return resumed_;
}

absl::StatusOr<Digest> PeerInbox::WaitForBucketKey() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::HasBucketKey));
  if (!failure_.ok()) {
    return failure_;
  }
  return key_half_;
}

absl::StatusOr<Digest> PeerInbox::WaitForCommitments(PointKind kind) {
  const absl::MutexLock lock(&mutex_,
                             absl::Condition(this, kind == PointKind::kMasked ? &PeerInbox::HasMaskedCommitments
                                                                              : &PeerInbox::HasAnswerCommitments));
  if (!failure_.ok()) {
    return failure_;
  }
  return Of(kind).sha256;
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
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::HasAllAnswers));
  if (!failure_.ok()) {
    return failure_;
  }
  ++current_;
  answer_chunks_.ours.clear();
  return std::exchange(double_masked_, {});
}

absl::StatusOr<PeerInbox::Outcome> PeerInbox::WaitForOutcome() {
  const absl::MutexLock lock(&mutex_, absl::Condition(this, &PeerInbox::IsDone));
  if (!failure_.ok()) {
    return failure_;
  }
  return outcome_;
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
  return absl::StrCat("after ", masked_chunks_.received, " of ", masked_chunks_.chunks.points * buckets_.count,
                      " masked points and ", answer_chunks_.received, " of ",
                      answer_chunks_.chunks.points * buckets_.count, " answers");
}

}  // namespace splitveil
