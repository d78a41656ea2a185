// What goes into an alignment and what comes out of it.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_RUN_H_
#define SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_RUN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/digest.h"

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
  // Shared ids with which this party goes on.
  uint64_t min_shared_ids = 0;
  uint64_t max_shared_ids = std::numeric_limits<uint64_t>::max();
  // Told (masked and double-masked ids so far, total), after each block, on the calling thread. May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_RUN_H_
