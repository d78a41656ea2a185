// What a run that was interrupted goes on with, in place of another alignment and another schedule.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_CONTINUATION_H_
#define SPLITVEIL_COMMON_CHECKPOINT_CONTINUATION_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/checkpoint.h"
#include "common/crypto/digest.h"
#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// The same schedule on the same order: the steps that the broken run had begun and that are repeated meet the same
// examples at the same positions, so that the same models give the same gradients and, under a kept key
// (label_party/storage/noise_key.h), the same bytes.
struct Continuation {
  Digest seed;  // The broken run's joint seed.
  AlignedIds aligned;
  uint32_t epochs = 0, batches = 0;  // Trained so far: whole epochs, and batches of the next one.
  // Batches in flight, from which follow the slices on the wire and what is computed before which update.
  int64_t in_flight_batches = 1;
};

// As a checkpoint keeps it, but for epochs, batches and the place in the ledger.
v1::Continuation ToProto(const Continuation& continuation, const v1::RunAgreement& agreement);

// nullopt where `checkpoint` is no state of a run of this agreement on this very data that has something left. Not
// under progressive_validation, whose one prediction comes first. Errors: InvalidArgument where it is, and is
// malformed.
absl::StatusOr<std::optional<Continuation>> ContinuationOf(const Checkpoint& checkpoint,
                                                           const v1::RunAgreement& agreement, const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_CONTINUATION_H_
