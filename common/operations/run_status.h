// Where a run stands, for operators and the progress line.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_

#include <mutex>

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
    std::lock_guard<std::mutex> lock(mutex_);
    change(status_);
  }

  v1::GetStatusResponse Snapshot() const;

 private:
  mutable std::mutex mutex_;
  v1::GetStatusResponse status_;  // Guarded by mutex_.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
