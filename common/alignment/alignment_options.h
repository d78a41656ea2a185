// What an alignment is given and gives back.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_OPTIONS_H_
#define SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/buckets.h"
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

// Counts what goes through another one. Thread-safe as that.
class CountingChannel final : public AlignmentChannel {
 public:
  // `channel`: not owned; must outlive this.
  explicit CountingChannel(AlignmentChannel* channel) : channel_(channel) {}

  absl::Status Send(const v1::AlignmentMessage& message) override;
  absl::StatusOr<v1::AlignmentMessage> Receive() override;

  // Of the messages that went through, without what frames them on the wire.
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t bytes_received() const { return bytes_received_; }

 private:
  AlignmentChannel* const channel_;
  std::atomic<int64_t> bytes_sent_ = 0, bytes_received_ = 0;
};

struct AlignedIds {
  // Rows of the own input, in the order both parties share: by bucket, then ascending double-masked value.
  std::vector<uint32_t> rows;
  // SHA-256 over the double-masked values of the intersection in that order (AlignmentSpill::order_sha256): equal at
  // both parties.
  Digest order_sha256;
  uint64_t peer_ids = 0;
  int64_t bytes_sent = 0, bytes_received = 0;  // As CountingChannel.
};

struct AlignmentOptions {
  std::string run_id;                // Bound into every point: masked ids of two runs cannot be compared.
  uint64_t max_ids = 100'000'000;    // Largest set of either party.
  int chunk_ids = 4096;              // Ids a message, the same at both parties.
  int threads = 0;                   // 0: all cores.
  uint64_t bucket_ids = kBucketIds;  // A larger set is aligned in several buckets; the same at both parties.
  // File for these buckets, from which an interrupted alignment resumes (alignment_spill.h). Empty: memory, and it
  // does not resume.
  std::string spill_path;
  Digest binding = {};  // Of certificates and agreement: one resumes only with the same.
  // Number of shared ids with which this party continues; fewer or more end the alignment.
  uint64_t min_shared_ids = 0;
  uint64_t max_shared_ids = std::numeric_limits<uint64_t>::max();
  // Told (masked and double-masked ids so far, total, bytes sent and received), after each block, on the calling
  // thread. May be empty.
  std::function<void(uint64_t, uint64_t, int64_t)> progress;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_ALIGNMENT_OPTIONS_H_
