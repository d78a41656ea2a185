#include "deploy/operator/local_run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/storage/file_system.h"

namespace splitveil {

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  MakeFolders(folder);  // Where it cannot, opening the file says it.
  const std::string path = folder + "/run.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(descriptor));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": expected no other sweep at work there, found one"));
  }
  return lock;
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace splitveil
