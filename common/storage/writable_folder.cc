#include "common/storage/writable_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

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

}  // namespace splitveil
