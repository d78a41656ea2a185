#include "common/storage/sync_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace splitveil {

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

}  // namespace splitveil
