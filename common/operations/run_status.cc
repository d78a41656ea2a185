#include "common/operations/run_status.h"

#include "common/process/version.h"

namespace splitveil {

RunStatus::RunStatus(const char* role) {
  status_.set_role(role);
  status_.set_version(Version());
  status_.set_phase("waiting");
}

v1::GetStatusResponse RunStatus::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace splitveil
