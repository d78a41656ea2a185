#include "common/storage/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

absl::Status WriteError(absl::string_view path, int error) {
  return absl::InternalError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

// `problem` is of the path that was asked for, unless the disk is full or broken, or the process has no descriptor
// left.
absl::Status PathError(absl::string_view path, absl::string_view problem, int error) {
  constexpr int kMachineErrors[] = {EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC};
  return absl::c_linear_search(kMachineErrors, error)
             ? WriteError(path, error)
             : absl::InvalidArgumentError(absl::StrCat(path, ": ", problem, ": ", std::strerror(error)));
}

// An unnamed file; -1 where it could not be given a name later.
int OpenWithoutName(const std::string& path, mode_t mode) {
  const int descriptor = OpenUnnamed(path, O_WRONLY, mode);
  if (descriptor >= 0 && access(NameOfDescriptor(descriptor).c_str(), F_OK) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

}  // namespace

PendingFile::PendingFile(std::string path, std::string temporary_path, std::FILE* file, bool named)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), file_(file), named_(named) {}

absl::StatusOr<std::unique_ptr<PendingFile>> PendingFile::Create(std::string path, mode_t mode) {
  std::string temporary_path = absl::StrCat(path, ".", getpid(), ".partial");
  std::remove(temporary_path.c_str());  // Left by a killed process of this number, which in a container is always 1.
  int descriptor = OpenWithoutName(path, mode);
  const bool named = descriptor < 0;
  if (named) {
    descriptor = open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  std::FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "wb");
  if (file == nullptr) {
    return PathError(path, "cannot be created", errno);
  }
  return std::unique_ptr<PendingFile>(new PendingFile(std::move(path), std::move(temporary_path), file, named));
}

PendingFile::~PendingFile() {
  if (file_ != nullptr) {
    std::fclose(file_);
  }
  if (named_ && !published_) {
    std::remove(temporary_path_.c_str());
  }
}

absl::Status PendingFile::Append(absl::string_view bytes) {
  if (file_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": is finished"));
  }
  // fwrite takes no null, which is what empty bytes may point to.
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    return WriteError(path_, errno);
  }
  return absl::OkStatus();
}

absl::Status PendingFile::Finish() {
  if (file_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": is finished"));
  }
  // ferror covers an Append whose status was not looked at.
  int error = std::ferror(file_) != 0 ? EIO : 0;
  // Bytes first, name second: after a power failure a name must never stand for half a file.
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) {
    error = errno;
  }
  if (error == 0) {
    return absl::OkStatus();
  }
  std::fclose(std::exchange(file_, nullptr));
  return WriteError(path_, error);
}

absl::Status PendingFile::KeepReplaced() {
  // A hard link keeps the old file while its name is taken, without copying it.
  const std::string second_name = absl::StrCat(path_, ".", getpid(), ".replaced");
  std::remove(second_name.c_str());
  if (link(path_.c_str(), second_name.c_str()) != 0) {
    if (errno == ENOENT) {
      return absl::OkStatus();
    }
    std::error_code error;  // Some file systems know no second names.
    if (std::filesystem::copy_file(path_, second_name, error); error) {
      std::remove(second_name.c_str());
      return WriteError(path_, error.value());
    }
  }
  replaced_path_ = second_name;
  return absl::OkStatus();
}

absl::Status PendingFile::TakeName() {
  // A name can only be replaced by another one: a file without gets a temporary one for this moment.
  if (!named_ && linkat(AT_FDCWD, NameOfDescriptor(fileno(file_)).c_str(), AT_FDCWD, temporary_path_.c_str(),
                        AT_SYMLINK_FOLLOW) != 0) {
    return WriteError(path_, errno);
  }
  named_ = true;
  std::fclose(std::exchange(file_, nullptr));  // Its bytes are on the disk.
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return PathError(path_, "cannot be replaced", errno);
  }
  published_ = true;
  return absl::OkStatus();
}

absl::Status PendingFile::PublishNew() {
  SPLITVEIL_RETURN_IF_ERROR(Finish());
  // A second name is given only where there is none: not by way of rename, which replaces.
  const std::string own_name = named_ ? temporary_path_ : NameOfDescriptor(fileno(file_));
  int error = linkat(AT_FDCWD, own_name.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  if (named_ && (error == EPERM || error == EOPNOTSUPP)) {  // Some file systems know no second names.
    error = renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
  }
  std::fclose(std::exchange(file_, nullptr));
  if (error == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(path_, ": expected a new file, found one of this name"));
  }
  return error == 0 ? SyncFolderOf(path_) : PathError(path_, "cannot be created", error);
}

void PendingFile::GiveNameBack() {
  if (!published_) {
    return;
  }
  if (replaced_path_.empty()) {
    std::remove(path_.c_str());
  } else {
    std::rename(replaced_path_.c_str(), path_.c_str());
  }
}

absl::Status PendingFile::Publish(absl::Span<PendingFile* const> files) {
  for (PendingFile* file : files) {
    SPLITVEIL_RETURN_IF_ERROR(file->Finish());
  }
  absl::Status status;
  for (PendingFile* file : files) {
    // Nothing is undone once the last name is given, so what it replaces is not needed.
    if (status.ok() && file != files.back()) {
      status = file->KeepReplaced();
    }
    if (status.ok()) {
      status = file->TakeName();
    }
  }
  absl::Status durable;
  for (PendingFile* file : files) {
    // All or none: files that belong together must not be of two runs.
    if (!status.ok()) {
      file->GiveNameBack();
    }
    if (!file->replaced_path_.empty()) {
      std::remove(file->replaced_path_.c_str());
    }
    durable.Update(SyncFolderOf(file->path_));
  }
  status.Update(durable);
  return status;
}

}  // namespace splitveil
