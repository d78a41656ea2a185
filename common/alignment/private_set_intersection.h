// Diffie-Hellman private set intersection on ristretto255.
//
//        party A, key a                                     party B, key b
//   AlignIds(x_1..x_m)   SetSize{m}              ────►  ◄────  SetSize{n}             AlignIds(y_1..y_n)
//   SendMasked           masked_commitment       ────►  ◄────  masked_commitment              SendMasked
//                        masked H(x)^a, shuffled ────►  ◄────  masked H(y)^b, shuffled
//   AnswerPeer           double_masked_commitment────►  ◄────  double_masked_commitment       AnswerPeer
//   SendAnswers          double_masked H(y)^ba   ────►  ◄────  double_masked H(x)^ab         SendAnswers
//   Intersect            { H(x)^ab } ∩ { H(y)^ba }, ascending: the order both share           Intersect
//
// Meadows (IEEE S&P 1986); Huberman, Franklin and Hogg (EC 1999); the group and the map H into it: RFC 9496. The keys
// are drawn for one run and wiped after it. Under the decisional Diffie-Hellman assumption, with H a random oracle,
// each party learns which of its own ids the other has, and how many ids the other has; nothing of the others, which
// are random points to it. Neither party's file order shows: both send in a secret random order.
//
// Against a party that does not follow the protocol: it is committed to its set before it sees a point of the other's,
// and to its answers before it sees an answer, so that it can make up neither from what the other sent (a set of the
// other's own points, raised to any power, would otherwise "share" every id). Answers go out in step, so that a party
// that stops early has learned at most three in 64 of them more than the other. Answers that are swapped, or made with
// several exponents, show in test points. What is left: a party may name ids that it does not
// hold, to test for them, and leave out some that it holds; and it may answer with another exponent than it masked its
// own ids with, which makes the other find nothing, while it finds all: AlignmentOptions::min_shared_ids refuses that,
// after the fact.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/peer_inbox.h"
#include "common/crypto/digest.h"
#include "common/dataset/id_list.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// One direction pair of an alignment stream. Send and Receive may be called from different threads, each from one at a
// time. A channel has its own deadline: against a peer that stalls, Send and Receive return DeadlineExceeded; once the
// connection is lost, both fail.
class AlignmentChannel {
 public:
  virtual ~AlignmentChannel() = default;
  // May wait until the peer reads.
  virtual absl::Status Send(const v1::AlignmentMessage& message) = 0;
  // Waits for the peer's next message. OutOfRange when the peer has closed its side.
  virtual absl::StatusOr<v1::AlignmentMessage> Receive() = 0;
};

struct AlignedIds {
  // Rows of the own input, in the order both parties share: ascending double-masked value.
  std::vector<uint32_t> rows;
  // SHA-256 over the double-masked values of the intersection in that order: equal at both parties.
  Digest order_sha256;
  uint64_t peer_ids = 0;
};

struct AlignmentOptions {
  std::string run_id;              // Bound into every point: masked ids of two runs cannot be compared.
  uint64_t max_ids = 100'000'000;  // Largest set of either party; memory is about 100 bytes per id.
  int chunk_ids = 4096;            // Ids a message, the same at both parties.
  int threads = 0;                 // 0: all cores.
  // Number of shared ids with which this party continues; fewer or more end the alignment.
  uint64_t min_shared_ids = 0;
  uint64_t max_shared_ids = std::numeric_limits<uint64_t>::max();
  // Told (masked and double-masked ids so far, total), after each block, on the calling thread. May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

// Among its masked ids P = H(x)^a a party hides test points Q = P^r of some of them, r secret: under the decisional
// Diffie-Hellman assumption nobody else can tell them from further ids, nor which belong together. Answers P^b and Q^b
// of one exponent b have Q^b = (P^b)^r. A peer that answers the share f of the points otherwise, by swapping answers or
// by further exponents, passes with a probability of at most (f^2 + (1 - f)^2)^64 where there are 64 or more ids: 0.1%
// at f = 5%, 10^-10 at f = 18%. It cannot see whether b is the exponent of its own masked ids, too: a peer with
// two exponents makes this party find nothing (see AlignmentOptions::min_shared_ids). Not thread-safe.
class AnswerCheck {
 public:
  // `order`: item at each position of the wire. Items below `ids` are own rows, item ids + t is the test point of row
  // t.
  AnswerCheck(absl::Span<const uint32_t> order, uint32_t ids);

  // The test point of a row whose masked id is `masked`.
  Point TestPoint(const Point& masked) const;

  // `answer`: to the point at a position of the wire, where it has come. InvalidArgument where a row and its test point
  // have been answered with different exponents; each pair is looked at once.
  absl::Status Check(const std::function<std::optional<Point>(uint64_t)>& answer);

 private:
  struct Pair {
    uint64_t row = 0, test = 0;  // Positions.
  };

  const MaskingKey key_ = MaskingKey::Generate();
  std::vector<Pair> open_;  // Not looked at yet.
};

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

// As the parties agreed, for a run.
AlignmentOptions AgreedAlignment(const v1::AlignmentAgreement& agreement, std::string run_id);

// Runs the whole protocol on `channel` and returns when the own half of it is done; the same call at both parties. An
// empty intersection is a result, not an error, unless min_shared_ids says so.
// `ids`: byte strings, trimmed by the caller; distinct and not empty, else InvalidArgument with counts before anything
// is sent. Errors about the peer: InvalidArgument for malformed messages (including an announced empty set, repeated
// ids, points other than those committed to, our own sent back, answers by several exponents), FailedPrecondition for
// messages out of turn or of another run and for fewer or more shared ids than agreed, Unavailable when it closes
// early, otherwise what the channel returned. Internal where memory or threads run out. No id, point or key is ever in
// a message.
absl::StatusOr<AlignedIds> AlignIds(const IdList& ids, const AlignmentOptions& options, AlignmentChannel& channel);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
