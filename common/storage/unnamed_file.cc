#include "common/storage/unnamed_file.h"

#include <fcntl.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace splitveil {

std::string NameOfDescriptor(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

int OpenUnnamed(const std::string& path, int access, mode_t mode) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return open(folder.empty() ? "." : folder.c_str(), access | O_TMPFILE | O_CLOEXEC, mode);
}

}  // namespace splitveil
