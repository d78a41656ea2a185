// What left for which slices of the latest batches, so that a batch whose stream broke can be sent once more.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_REPLAY_CACHE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_REPLAY_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "label_party/training/gradients_message.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// A slice that comes again gets the bytes it got: noise is drawn once, and a second draw on the same gradients would
// let the peer average it away. Not thread-safe.
class ReplayCache {
 public:
  // `batches`: how many complete ones are kept, the latest: those that may be under way.
  explicit ReplayCache(size_t batches) : batches_(batches) {}

  // What left for `request`, where its slice has been taken before; nullopt where it is new. Errors: FailedPrecondition
  // where its batch is kept with other activations, or is complete and has no such slice.
  absl::StatusOr<std::optional<SharedGradients>> Find(const v1::CutActivations& request) const;

  // Keeps `answer` for the slice `request`, which Find did not know. `last`: the batch is complete.
  void Keep(v1::CutActivations request, SharedGradients answer, bool last);

 private:
  struct ReplaySlice {
    std::string activations;  // Their bytes.
    SharedGradients answer;
  };
  struct ReplayEntry {
    uint32_t epoch = 0, batch = 0;
    std::map<uint32_t, ReplaySlice> slices;  // By first row.
    bool complete = false;
  };

  const size_t batches_;
  std::deque<ReplayEntry> entries_;  // Latest last: complete ones, and perhaps one that comes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_REPLAY_CACHE_H_
