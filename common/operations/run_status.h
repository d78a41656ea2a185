// Where a run stands, for operators and the progress line.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// Thread-safe: a session writes it, the Operations service and the progress line read it.
class RunStatus {
 public:
  // `role`: "label_party" or "nonlabel_party".
  explicit RunStatus(const char* role);

  // Changes the status under the lock: `change` gets the message to edit.
  template <typename Change>
  void Update(const Change& change) {
    absl::MutexLock lock(&mutex_);
    change(status_);
  }

  v1::GetStatusResponse Snapshot() const;

 private:
  mutable absl::Mutex mutex_;
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
