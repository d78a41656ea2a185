// Diffie-Hellman private set intersection on ristretto255.
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

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// One direction pair of an alignment stream. Send and Receive may be called from different threads.
class AlignmentChannel {
 public:
  virtual ~AlignmentChannel() = default;
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
  std::string run_id;
  uint64_t max_ids = 100'000'000;
  int chunk_ids = 4096;
  int threads = 0;  // 0: all cores.
  // Told (masked or double-masked ids so far, total). May be empty.
  std::function<void(uint64_t, uint64_t)> progress;
};

// Runs the whole protocol on `channel`; the same call at both parties. `ids`: distinct, not empty.
absl::StatusOr<AlignedIds> AlignIds(absl::Span<const std::string> ids, const AlignmentOptions& options,
                                    AlignmentChannel& channel);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PRIVATE_SET_INTERSECTION_H_
