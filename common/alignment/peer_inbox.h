// What the peer has sent of an alignment: checked message by message, kept until the protocol wants it.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/masking_key.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// The reading thread puts messages in with Accept, the protocol's thread takes them out; each waits on no more than the
// other's progress, so both parties may be in the middle of Send at once. Memory is bounded by what both sides
// announced: 32 bytes for each id of either. Thread-safe.
class PeerInbox {
 public:
  // What the peer may send next. Messages of any other kind fail the inbox.
  enum class State {
    kSetSize,       // Its one set_size.
    kMasked,        // Chunks of its own ids, masked.
    kDoubleMasked,  // Our masked ids under its key too, as many as we have sent.
    kComplete,      // Nothing.
    kFailed,        // Nothing: it broke the protocol or is gone. The first failure stays.
  };

  struct Limits {
    std::string run_id;      // Every message must carry it.
    uint64_t own_ids = 0;    // Answers we are owed.
    uint64_t max_ids = 0;    // Largest set accepted.
    uint64_t chunk_ids = 0;  // Largest message accepted.
    size_t threads = 1;      // That check received points.
  };

  explicit PeerInbox(Limits limits) : limits_(std::move(limits)) {}

  // Takes in the peer's next message. Errors: InvalidArgument for a malformed one (set size, length, index, more points
  // than announced, bytes that encode no group element or the identity); FailedPrecondition for one of another run or
  // out of turn. An error fails the inbox. From one thread.
  absl::Status Accept(const v1::AlignmentMessage& message);
  // Fails the inbox unless it is complete or has failed already, and wakes who waits on it.
  void Fail(const absl::Status& reason);
  // Tells how many of our masked ids the peer can have seen: answers beyond them are out of turn.
  void NoteSent(uint64_t masked_ids);

  // Each waits for its answer, or returns the failure.
  absl::StatusOr<uint64_t> WaitForSetSize();
  // Hands out the peer's masked ids from where the last call ended, in the peer's order: at least one, at most
  // `max_points`; empty when all have been taken.
  absl::StatusOr<std::vector<Point>> TakeMasked(uint64_t max_points);
  // All of our ids, double-masked, in the order we sent them. Once.
  absl::StatusOr<std::vector<Point>> TakeDoubleMasked();

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
  absl::Status AcceptSetSize(const v1::AlignmentMessage::SetSize& set_size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptMasked(const v1::AlignmentMessage::Points& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AcceptDoubleMasked(const v1::AlignmentMessage::Points& chunk) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that `chunk` continues the `received` points within what is `owed` in all.
  static absl::Status CheckOrder(const char* field, const v1::AlignmentMessage::Points& chunk, uint64_t received,
                                 uint64_t owed);

  const Limits limits_;
  // What WaitForSetSize, TakeMasked and TakeDoubleMasked wait for; a failure ends every wait.
  bool HasSetSize() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ != State::kSetSize; }
  bool HasMaskedOrNoMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kFailed || !masked_.empty() || (state_ != State::kSetSize && masked_ids_ == peer_ids_);
  }
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kComplete || state_ == State::kFailed;
  }

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kSetSize;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t peer_ids_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sent_ids_ ABSL_GUARDED_BY(mutex_) = 0;     // Of ours.
  uint64_t masked_ids_ ABSL_GUARDED_BY(mutex_) = 0;   // Of the peer's, received.
  std::deque<Point> masked_ ABSL_GUARDED_BY(mutex_);  // Those that TakeMasked has not handed out.
  std::vector<Point> double_masked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PEER_INBOX_H_
