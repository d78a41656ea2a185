// What the peer has sent of an alignment: checked message by message, kept until the protocol wants it.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"
#include "common/crypto/digest.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// The reading thread puts messages in with Accept, the protocol's thread takes them out; each waits on no more than the
// other's progress, so both parties may be in the middle of Send at once. Memory is bounded by what both sides
// announced: 32 bytes for each point of a bucket of either, and for each message of masked points. Thread-safe.
class PeerInbox {
 public:
  // What the peer may send next. Messages of any other kind fail the inbox.
  enum class State {
    kSetSize,                  // Its one set_size.
    kBucketKey,                // Its half of the key, if there are several buckets and none is kept.
    kMaskedCommitments,        // A commitment to each chunk of its own ids, masked; of all buckets.
    kMasked,                   // These chunks, of one bucket.
    kDoubleMaskedCommitments,  // A commitment to each chunk of its answers in this bucket.
    kDoubleMasked,             // These: our masked points under its key too. Then the next bucket's kMasked, of which
                               // points and commitments may come before TakeDoubleMasked.
    kOutcome,                  // What it has found.
    kComplete,                 // Nothing.
    kFailed,                   // Nothing: it broke the protocol or is gone. The first failure stays.
  };

  // An interrupted alignment that we can resume.
  struct Resumable {
    Digest name = {};
    std::string run_id;  // In which it began.
    uint64_t peer_ids = 0;
    uint64_t next_bucket = 0;
  };
  struct Limits {
    std::string run_id;      // Every message must carry it.
    uint64_t own_ids = 0;    // We are owed AnswerChunks of them.
    uint64_t max_ids = 0;    // Largest set accepted.
    uint64_t chunk_ids = 0;  // Points a message, at most.
    size_t threads = 1;      // That check received points.
    uint64_t bucket_ids = kBucketIds;
    Digest own_key_commitment = {};  // To our half of the bucket key: the peer must have one of its own.
    std::optional<Resumable> resumable = std::nullopt;
  };

  explicit PeerInbox(Limits limits);

  // Takes in the peer's next message. Errors: InvalidArgument for a malformed one (set size, length, index, points that
  // are not those it is committed to, bytes that encode no group element or the identity) and for a commitment of ours
  // that is sent back; FailedPrecondition for one of another run or out of turn. An error fails the inbox. From one
  // thread.
  absl::Status Accept(const v1::AlignmentMessage& message);
  // Fails the inbox unless it is complete or has failed already, and wakes who waits on it.
  void Fail(const absl::Status& reason);
  // Tells what the peer is about to see. Of our masked points: commitments to answers beyond them are out of turn. Of
  // our commitments, in order: a peer that sends one back claims points that it does not know.
  void NoteSent(uint64_t masked_points);
  void NoteCommitted(PointKind kind, const Digest& commitment);

  // Each waits for its answer, or returns the failure.
  absl::StatusOr<uint64_t> WaitForSetSize();
  // After WaitForSetSize: the bucket with which both resume; nothing if they restart.
  std::optional<uint64_t> ResumedBucket() const;
  // The peer's half of the bucket key.
  absl::StatusOr<Digest> WaitForBucketKey();
  // All commitments of `kind`, those to answers in our current bucket: SHA-256 over them.
  absl::StatusOr<Digest> WaitForCommitments(PointKind kind);
  // Hands out the peer's masked ids from where the last call ended, in the peer's order: at least one, at most
  // `max_points`, no more than are left of our current bucket; empty when all of it have been taken.
  absl::StatusOr<std::vector<Point>> TakeMasked(uint64_t max_points);
  // At least `points` answers in our current bucket. From one thread.
  absl::Status WaitForAnswers(uint64_t points);
  // All of our points of our current bucket, double-masked, in the order we sent them. Then the next is the current
  // one.
  absl::StatusOr<std::vector<Point>> TakeDoubleMasked();

  // What the peer has found.
  struct Outcome {
    uint64_t shared_ids = 0;
    Digest order_sha256 = {};
  };
  absl::StatusOr<Outcome> WaitForOutcome();

  // The answer to the `index`-th of our points of the current bucket, where it has come.
  std::optional<Point> Answer(uint64_t index) const;

  State state() const;
  // OK, or why the inbox has failed.
  absl::Status failure() const;
  // How far the peer came, for error messages.
  std::string Progress() const;

 private:
  // What holds for a message in every state.
  absl::Status CheckForm(const v1::AlignmentMessage& message) const;
  absl::Status CheckPoints(const char* field, const v1::AlignmentMessage::Points& chunk) const;
  // What depends on the state.
  absl::Status Advance(const v1::AlignmentMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptBucketKey(const v1::AlignmentMessage::BucketKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptSetSize(const v1::AlignmentMessage::SetSize& set_size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptCommitment(PointKind kind, const v1::AlignmentMessage::Commitment& commitment)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptMasked(const v1::AlignmentMessage::Points& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptDoubleMasked(const v1::AlignmentMessage::Points& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptOutcome(const v1::AlignmentMessage::Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The peer's messages of one kind of points, counted over all buckets.
  struct Committed {
    PointChunks chunks;
    uint64_t first_number = 0;  // Of the message to which the first of these commitments is.
    std::vector<Digest> commitments = {};
    Digest sha256 = {};             // Over the latest commitments that were complete.
    std::vector<Digest> ours = {};  // That we have sent, of the same kind.
    uint64_t received = 0;          // Points.
  };
  // Checks that `chunk` is the next one that `committed` says.
  absl::Status CheckChunk(PointKind kind, const v1::AlignmentMessage::Points& chunk, const Committed& committed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Committed& Of(PointKind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return kind == PointKind::kMasked ? masked_chunks_ : answer_chunks_;
  }
  // Both parties can resume the same alignment, `bucket` being the first that both, or one of them, have not finished.
  absl::Status Resume(uint64_t peer_next_bucket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BeginBucket(uint64_t bucket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  // What the waits are for; a failure ends every one.
  bool HasSetSize() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ != State::kSetSize; }
  bool HasBucketKey() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ > State::kBucketKey; }
  bool HasMaskedCommitments() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ >= State::kMasked; }
  // Our current bucket is in this state or a later one.
  bool HasReached(State state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kFailed || bucket_ > current_ || state_ >= state;
  }
  bool HasMaskedOrNoMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !masked_.empty() || HasReached(State::kDoubleMaskedCommitments);
  }
  bool HasAnswerCommitments() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasReached(State::kDoubleMasked); }
  bool HasAwaitedAnswers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kFailed || double_masked_.size() >= awaited_answers_;
  }
  bool HasAllAnswers() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasReached(State::kOutcome); }
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kComplete || state_ == State::kFailed;
  }

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kSetSize;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t peer_ids_ ABSL_GUARDED_BY(mutex_) = 0;
  Buckets buckets_ ABSL_GUARDED_BY(mutex_);
  uint64_t bucket_ ABSL_GUARDED_BY(mutex_) = 0;   // Of which state_ is.
  uint64_t current_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the protocol's thread: at most one behind.
  std::optional<uint64_t> resumed_ ABSL_GUARDED_BY(mutex_);
  std::string bound_run_ ABSL_GUARDED_BY(mutex_);  // To which the commitments are.
  Digest key_commitment_ ABSL_GUARDED_BY(mutex_) = {};
  Digest key_half_ ABSL_GUARDED_BY(mutex_) = {};
  uint64_t sent_points_ ABSL_GUARDED_BY(mutex_) = 0;  // Of ours.
  Committed masked_chunks_ ABSL_GUARDED_BY(mutex_);
  Committed answer_chunks_ ABSL_GUARDED_BY(mutex_);
  std::deque<Point> masked_ ABSL_GUARDED_BY(mutex_);  // Those that TakeMasked has not handed out.
  std::vector<Point> double_masked_ ABSL_GUARDED_BY(mutex_);
  uint64_t awaited_answers_ ABSL_GUARDED_BY(mutex_) = 0;
  Outcome outcome_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_
