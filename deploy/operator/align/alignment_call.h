// The non-label party's side of an alignment without a run.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_CALL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_CALL_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/align/finished_alignment.h"

namespace splitveil {

// Waits for the label party at `peer_address`, which runs `splitveil align` too, and aligns with it. Every message has
// the agreement's deadline. Errors: Unavailable, DeadlineExceeded; refusals of the label party; those of AlignIds.
absl::StatusOr<FinishedAlignment> CallAlignment(const AlignmentSide& side, const std::string& peer_address);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_CALL_H_
