#include "deploy/operator/local_run/local_programs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"
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

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError("/proc/self/exe: cannot be read: " + error.message());
  }
  return program.parent_path().string();
}

absl::Status FindLocalPrograms(LocalRunsOptions& options) {
  if (options.jobs == 0) {
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 2));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(options.programs, OwnFolder());
  options.stop_requested = &StopRequested;
  HandleStopSignals();
  return absl::OkStatus();
}

}  // namespace splitveil
