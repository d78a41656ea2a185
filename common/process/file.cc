#include "common/process/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

absl::Status FileError(absl::StatusCode code, absl::string_view path, absl::string_view problem, int error) {
  return absl::Status(code, absl::StrCat(path, ": ", problem, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    return error == ENOENT || error == ENOTDIR
               ? absl::NotFoundError(absl::StrCat(path, ": no such file"))
               : FileError(absl::StatusCode::kInvalidArgument, path, "cannot be opened", error);
  }
  std::string contents;
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(descriptor, buffer, sizeof buffer)) > 0 || (count < 0 && errno == EINTR)) {
    contents.append(buffer, count > 0 ? count : 0);
  }
  const int error = errno;
  close(descriptor);
  if (count < 0) {
    return FileError(absl::StatusCode::kInvalidArgument, path, "cannot be read", error);
  }
  return contents;
}

absl::Status WriteFile(const std::string& path, absl::string_view contents, mode_t mode) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path, mode));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(contents));
  return PendingFile::Publish({file.get()});
}

absl::Status CreateFile(const std::string& path, absl::string_view contents, mode_t mode) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path, mode));
  SPLITVEIL_RETURN_IF_ERROR(file->Append(contents));
  return file->PublishNew();
}

}  // namespace splitveil
