#include "common/storage/make_folders.h"

#include <sys/stat.h>

#include <cerrno>

namespace splitveil {
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
