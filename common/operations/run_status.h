// Where a run stands, for operators and the progress line.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "common/ledger/ledger.h"
#include "common/operations/live_figures.h"
#include "common/process/steady_time.h"

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// The one place that the terminal, `splitveil status`, the page and Prometheus read: what the session says (phase,
// step) and what the ledger records. Thread-safe.
class RunStatus {
 public:
  // `role`: "label_party" or "nonlabel_party"; of the latter no figure of LabelPartyFigures is kept.
  explicit RunStatus(const char* role, SteadyClock clock = SteadyNow);

  // Changes the status under the lock: `change` gets the message to edit. What LiveFigures adds is not kept.
  template <typename Change>
  void Update(const Change& change) {
    absl::MutexLock lock(&mutex_);
    change(status_);
  }

  // Figures restart, with what `ledger` records from now on, and with its events. Not owned; this must outlive it.
  // Errors: as Ledger::Observe.
  absl::Status Watch(Ledger& ledger) ABSL_LOCKS_EXCLUDED(mutex_);

  v1::GetStatusResponse Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);
  v1::RunHistory History() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const SteadyClock clock_;
  mutable absl::Mutex mutex_;
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
  std::optional<LiveFigures> figures_ ABSL_GUARDED_BY(mutex_);  // From Watch on.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
