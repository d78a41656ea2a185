#include "deploy/operator/certificates/new_files.h"

#include <unistd.h>

#include <cstddef>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "common/process/file.h"
#include "common/storage/file_system.h"

namespace splitveil {

absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files) {
  if (const std::error_code error = MakeFolders(folder); error) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    absl::Status created = CreateFile(files[i].path, files[i].contents, files[i].mode);
    if (!created.ok()) {
      for (size_t earlier = 0; earlier < i; ++earlier) {
        unlink(files[earlier].path.c_str());
      }
      return created;
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
