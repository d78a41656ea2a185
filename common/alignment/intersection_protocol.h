// The protocol of one party: what it sends and when, bucket by bucket, and what it makes of what the inbox holds.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_
#define SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/alignment/alignment_options.h"
#include "common/alignment/alignment_spill.h"
#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"
#include "common/alignment/peer_inbox.h"
#include "common/alignment/peer_outbox.h"
#include "common/crypto/digest.h"
#include "common/dataset/id_list.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// What a masked point stands for. Below kFirstTest: an own row; from the number of own ids on, a padding.
inline constexpr uint32_t kFirstTest = std::numeric_limits<uint32_t>::max() - kMaxTestPoints - kCanaries + 1;
inline constexpr uint32_t kFirstCanary = kFirstTest + kMaxTestPoints;

// Messages of a bucket's masked points that go out behind the last answers of the bucket before it.
inline constexpr uint64_t kEarlyMessages = 4;

// Among its masked ids P = H(x)^a a party hides test points Q = P^r of some of them, r secret: under the decisional
// Diffie-Hellman assumption nobody else can tell them from further ids, nor which belong together. Answers P^b and Q^b
// of one exponent b have Q^b = (P^b)^r. A peer that answers the share f of the points otherwise, by swapping answers or
// by further exponents, passes with a probability of at most (f^2 + (1 - f)^2)^64 where there are 64 or more ids: 0.1%
// at f = 5%, 10^-10 at f = 18%. It cannot see whether b is the exponent of its own masked ids, too: a peer with
// two exponents makes this party find nothing (see AlignmentOptions::min_shared_ids). Of one bucket. Not thread-safe.
class AnswerCheck {
 public:
  // `items`: at each position of the wire. Test point kFirstTest + t is of the t-th smallest item below kFirstTest.
  // `key`: r; must outlive this.
  AnswerCheck(absl::Span<const uint32_t> items, const MaskingKey* key);

  // The item of which a test point is.
  uint32_t TestedBy(uint32_t test_item) const { return tested_[test_item - kFirstTest]; }

  // `answer`: to the point at a position of the wire, where it has come. InvalidArgument where a row and its test point
  // have been answered with different exponents; each pair is looked at once.
  absl::Status Check(const std::function<std::optional<Point>(uint64_t)>& answer);

 private:
  struct Pair {
    uint64_t row = 0, test = 0;  // Positions.
  };

  const MaskingKey& key_;
  std::vector<uint32_t> tested_;
  std::vector<Pair> open_;  // Not looked at yet.
};

// One object a run, on the calling thread; another one fills the inbox.
class IntersectionProtocol {
 public:
  struct Setting {
    const IdList& ids;  // Checked.
    const AlignmentOptions& options;
    size_t threads = 1;    // At least 1.
    AlignmentTerms terms;  // Without bucket_key and peer_ids.
    Digest own_half = {};  // Of the bucket key.
  };
  // Both must outlive this. `spill`: of an interrupted alignment, or null. Throws if the system has no thread.
  IntersectionProtocol(const Setting& setting, std::unique_ptr<AlignmentSpill> spill, CountingChannel& channel,
                       PeerInbox& inbox)
      : setting_(setting), spill_(std::move(spill)), channel_(channel), inbox_(inbox) {
    outbox_.emplace(&channel);
  }

  // Removes what was spilled, unless the connection to the peer was lost.
  ~IntersectionProtocol();
  IntersectionProtocol(const IntersectionProtocol&) = delete;
  IntersectionProtocol& operator=(const IntersectionProtocol&) = delete;

  // The whole of it. Errors: as AlignIds.
  absl::StatusOr<AlignedIds> Run();

 private:
  absl::StatusOr<AlignedIds> RunToTheEnd();
  // Says how many ids there are, and with what both resume, or agrees on buckets and distributes the ids.
  absl::Status Begin();
  absl::Status Distribute();
  // Commits to all masked points of all buckets before the first of the peer's can come.
  absl::Status MaskAndCommit();
  // Those from `begin` to `end` of a bucket, as the link takes them; nothing where there is no such bucket.
  absl::Status SendMasked(uint64_t bucket, uint64_t begin, uint64_t end);
  // Commits to the answers. Returns them: the peer's points double-masked, in its order.
  absl::StatusOr<std::vector<Point>> AnswerPeer(uint64_t bucket);
  // Sends them in step with those that come, once the peer has committed to its own.
  absl::Status SendAnswers(uint64_t bucket, absl::Span<const Point> answers, AnswerCheck& check);
  absl::Status AlignBucket(uint64_t bucket);
  // What both have in common in a bucket, if everything that was received says that both have computed rightly.
  // `their_positions`: AscendingPositions(theirs).
  absl::Status Intersect(uint64_t bucket, absl::Span<const Point> ours, absl::Span<const Point> theirs,
                         absl::Span<const uint32_t> their_positions);
  // Once.
  absl::Status SendOutcome(uint64_t shared_ids, const Digest& order);
  // Both must have found the same number in the same order, and as many as agreed.
  absl::Status CompareOutcome();

  // The masked points of a bucket from position `first` of the wire on. Internal if an id hashed to the identity.
  absl::Status MaskAt(uint64_t bucket, const AnswerCheck& check, size_t first, absl::Span<Point> masked);
  // To a message that is sent later. `first`: counted over all buckets.
  absl::StatusOr<Digest> Commit(PointKind kind, uint64_t first, absl::Span<const Point> chunk);
  absl::Status SendCommitment(PointKind kind, uint64_t first, const Digest& commitment);
  v1::AlignmentMessage ChunkMessage(PointKind kind, uint64_t first, absl::Span<const Point> chunk) const;
  absl::Status Send(v1::AlignmentMessage message);
  void Report(uint64_t newly_done);
  // Points worked on at a time: a message for each thread, so that starting threads costs nothing.
  size_t BlockPoints() const { return setting_.threads * setting_.options.chunk_ids; }
  // Of a bucket, sent before the one before it is finished.
  uint64_t EarlyPoints() const { return std::min(kEarlyMessages * own_masked_.chunk, own_masked_.points); }
  const Buckets& buckets() const { return spill_->buckets(); }

  const Setting setting_;
  std::unique_ptr<AlignmentSpill> spill_;  // From Begin on.
  CountingChannel& channel_;
  PeerInbox& inbox_;
  uint64_t first_bucket_ = 0;
  std::optional<IdHasher> hasher_;
  std::optional<MaskingKey> key_, test_key_;
  PointChunks own_masked_, own_answers_, peer_answers_;
  uint64_t done_ = 0;
  bool outcome_sent_ = false, interrupted_ = false;
  std::optional<PeerOutbox> outbox_;  // Reads what is spilled: ends first.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_
