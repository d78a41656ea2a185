// A folder for one process at a time.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FOLDER_LOCK_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace splitveil {

// Holds a folder until it is destroyed or the process ends, however it ends: two sweeps or streams would throw away
// each other's runs. The lock is on the file run.lock, which stays.
class FolderLock {
 public:
  // Makes the folder where it does not exist. Errors: InvalidArgument where it cannot be made or is held.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FOLDER_LOCK_H_
