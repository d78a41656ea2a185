#include "common/storage/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace splitveil {

absl::Status CheckFolderOf(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  folder = folder.empty() ? "." : folder;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a path in a folder that exists, found none of that name"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a folder that can be written to, found: ", std::strerror(errno)));
  }
  if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file that can be written, found: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

std::string NameOfDescriptor(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

int OpenUnnamed(const std::string& path, int access, mode_t mode) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return open(folder.empty() ? "." : folder.c_str(), access | O_TMPFILE | O_CLOEXEC, mode);
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent;
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  return synced
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(path, ": its folder cannot be made durable: ", std::strerror(error)));
}

namespace {

constexpr mode_t kFolderMode = 0755;

}  // namespace

std::error_code MakeFolders(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return {};
  }
  if (const std::error_code above = MakeFolders(path.parent_path()); above) {
    return above;
  }
  if (mkdir(path.c_str(), kFolderMode) == 0 || std::filesystem::is_directory(path, ignored)) {
    return {};  // Also where another process was faster.
  }
  return {errno == EEXIST ? ENOTDIR : errno, std::generic_category()};
}

}  // namespace splitveil
