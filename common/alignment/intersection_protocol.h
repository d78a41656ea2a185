// One party's part of a private set intersection, but for reading.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_
#define SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/alignment/alignment_run.h"
#include "common/alignment/answer_check.h"
#include "common/alignment/masking_key.h"
#include "common/alignment/peer_inbox.h"
#include "common/alignment/point_commitment.h"
#include "common/dataset/id_list.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// What is sent, and what becomes of what the inbox holds. One object a run, on the calling thread; another one fills
// the inbox.
class IntersectionProtocol {
 public:
  // All must outlive this. `ids`: checked; `threads`: at least 1.
  IntersectionProtocol(const IdList& ids, const AlignmentOptions& options, size_t threads, AlignmentChannel& channel,
                       PeerInbox& inbox);

  // The whole of it. Errors: as AlignIds.
  absl::StatusOr<AlignedIds> Run();

 private:
  absl::Status ExchangeSetSizes();
  // Commits to all masked points before the first of the peer's can come, then sends them once the peer has committed,
  // too.
  absl::Status SendMasked();
  // Commits to the answers. Returns them: the peer's points double-masked, in its order. They take memory as they come,
  // not as they were announced.
  absl::StatusOr<std::deque<Point>> AnswerPeer();
  // Sends them in step with those that come, once the peer has committed to its own.
  absl::Status SendAnswers(const std::deque<Point>& answers);
  absl::StatusOr<AlignedIds> Intersect(const std::vector<Point>& ours, std::deque<Point> theirs) const;

  // The masked id of a row, or a test point. False where an id hashed to the identity.
  bool MaskItem(uint32_t item, Point& masked) const;
  // To a message that is sent later, in the same order.
  absl::Status Commit(PointKind kind, uint64_t first, absl::Span<const Point> chunk);
  absl::Status SendChunk(PointKind kind, uint64_t first, absl::Span<const Point> chunk);
  absl::Status Send(v1::AlignmentMessage& message);
  void Report(uint64_t newly_done);
  // Points worked on at a time: a message for each thread, so that starting threads costs nothing.
  size_t BlockPoints() const { return threads_ * options_.chunk_ids; }

  const IdList ids_;
  const AlignmentOptions& options_;
  const size_t threads_;
  AlignmentChannel& channel_;
  PeerInbox& inbox_;
  const IdHasher hasher_;
  const MaskingKey key_ = MaskingKey::Generate();
  const std::vector<uint32_t> order_;  // Position on the wire -> own row, or ids + t: the test point of row t.
  AnswerCheck check_;
  std::deque<CommitmentNonce> nonces_;  // Of the messages that are committed to and not sent.
  uint64_t peer_ids_ = 0;
  uint64_t done_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_INTERSECTION_PROTOCOL_H_
