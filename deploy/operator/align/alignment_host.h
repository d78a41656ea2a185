// The label party's side of an alignment without a run.
//
//   non-label party                                 label party
//   Open(agreement, no commitment) ──────────────►  waiting -> opened: agreements compared, a run id
//   Align: set sizes, masked, double-masked  ◄───►  opened  -> ended
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_HOST_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_HOST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/private_set_intersection.h"
#include "common/dataset/id_list.h"
#include "common/ledger/ledger.h"
#include "common/operations/run_status.h"
#include "common/process/steady_time.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct AlignmentSide {
  v1::RunAgreement agreement;  // Canonical and valid.
  TlsIdentity identity;
  v1::PartyCommon party;                         // Its ledger counts the alignment among the runs' (max_alignments).
  IdList ids = absl::Span<const std::string>();  // Borrowed.
  AlignmentRow attempt;                          // What is recorded of it.
};

struct FinishedAlignment {
  AlignedIds aligned;
  double seconds = 0;  // From the opened stream to the end of the own half.
};

// Counts the alignment `run_id`, which begins. Errors: as RecordAlignment, at the limit as a refusal (exit 4).
absl::Status CountAttempt(const AlignmentSide& side, const std::string& run_id);

// Aligns `side`'s ids over `channel` as the run `run_id`, and shows how far it is. `heard`: called after every block of
// ids. Errors: as AlignIds.
absl::StatusOr<FinishedAlignment> AlignCounted(const AlignmentSide& side, const std::string& run_id, RunStatus* status,
                                               const std::function<void()>& heard, AlignmentChannel& channel);

// Free of gRPC. One alignment: each would let the peer try another list of ids. Thread-safe.
class AlignmentHost {
 public:
  // Not owned; must outlive this.
  AlignmentHost(const AlignmentSide* side, RunStatus* status);

  // Errors: FailedPrecondition if the agreements differ, the peer wants to train, or somebody was here before.
  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);
  // Errors: FailedPrecondition out of turn; those of CountAttempt and AlignIds.
  absl::Status Align(AlignmentChannel& channel);
  // Waits for the end: done, failed, or the peer silent for longer than the agreement allows.
  absl::StatusOr<FinishedAlignment> WaitUntilEnded();

 private:
  // Ends it where the peer has been silent for too long; whether it has ended.
  bool EndIfDue();
  absl::Status Refuse(const std::string& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AlignmentSide& side_;
  RunStatus* const status_;
  WakeableSleep ended_;  // Of WaitUntilEnded.
  absl::Mutex mutex_;
  std::string run_id_ ABSL_GUARDED_BY(mutex_);  // Empty before Open.
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  SteadyTime last_heard_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::StatusOr<FinishedAlignment>> outcome_ ABSL_GUARDED_BY(mutex_);
};

// Serves one alignment at `listen_address`; logs the port. Errors: as AlignmentHost; Unavailable if nobody comes
// within the agreement's connect_seconds; InvalidArgument for the address.
absl::StatusOr<FinishedAlignment> HostAlignment(const AlignmentSide& side, const std::string& listen_address);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGNMENT_HOST_H_
