// Diffie-Hellman private set intersection on ristretto255.
//
//        party A, key a                                     party B, key b
//   AlignIds(x_1..x_m)   SetSize{m}              ────►  ◄────  SetSize{n}             AlignIds(y_1..y_n)
//   SendMasked           masked H(x)^a, shuffled ────►  ◄────  masked H(y)^b, shuffled       SendMasked
//   AnswerPeer           double_masked H(y)^ba   ────►  ◄────  double_masked H(x)^ab         AnswerPeer
//   Intersect            { H(x)^ab } ∩ { H(y)^ba }, ascending: the order both share           Intersect
//
// Meadows (IEEE S&P 1986); Huberman, Franklin and Hogg (EC 1999); the group and the map H into it: RFC 9496. The keys
// are drawn for one run and wiped after it. Under the decisional Diffie-Hellman assumption, with H a random oracle,
// each party learns which of its own ids the other has, and how many ids the other has; nothing of the others, which
// are random points to it. Neither party's file order shows: both send in a secret random order. Both parties are
// assumed honest but curious: they follow the protocol, and try to learn from what they receive. A party that lies
// about its ids can ask whether the other has any id it can name, and may claim a smaller intersection; what it cannot
// do is crash the other or make it accept a malformed set.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/sha256.h"
#include "common/dataset/id_list.h"

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
  // Told (masked and double-masked ids so far, total), after each block, on the calling thread. May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

// Runs the whole protocol on `channel` and returns when the own half of it is done; the same call at both parties. An
// empty intersection is a result, not an error.
// `ids`: byte strings, trimmed by the caller; distinct and not empty, else InvalidArgument with counts before anything
// is sent. Errors about the peer: InvalidArgument for malformed messages (including an announced empty set and repeated
// ids), FailedPrecondition for messages out of turn or of another run, Unavailable when it closes early, otherwise what
// the channel returned. Internal where memory or threads run out. No id, point or key is ever in a message.
absl::StatusOr<AlignedIds> AlignIds(const IdList& ids, const AlignmentOptions& options, AlignmentChannel& channel);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
