#include "common/storage/file_system.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr mode_t kFolderMode = 0755;

namespace fs = std::filesystem;

bool BeginsWith(const std::string& path, absl::string_view header) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(header.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())).good() && begin == header;
}

// Without links and dots, as far as the path exists.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::path(path).lexically_normal() : resolved;
}

constexpr size_t kMaxPath = 256;
constexpr int kInvalidInput = 2;  // ARCHITECTURE.md, "Exit codes".

// Read by a signal handler: no lock, no memory that somebody else owns. `begin` is written last and cleared first.
struct Mapping {
  std::atomic<bool> taken{false};
  std::atomic<const char*> begin{nullptr};
  size_t size = 0;
  std::array<char, kMaxPath> path{};
};
static_assert(std::atomic<const char*>::is_always_lock_free, "read by a signal handler");

std::array<Mapping, 256> mappings;

const Mapping* MappingAt(const char* address) {
  for (const Mapping& mapping : mappings) {
    const char* const begin = mapping.begin.load();
    if (begin != nullptr && address >= begin && address < begin + mapping.size) {
      return &mapping;
    }
  }
  return nullptr;
}

void Write(const char* text) {
  const size_t size = std::strlen(text);
  if (write(STDERR_FILENO, text, size) < 0) {
    return;  // Nobody is left to tell.
  }
}

extern "C" void OnBusError(int signal_number, siginfo_t* info, void* /*context*/) {
  // In a signal handler: no lock and no allocation, since the interrupted code may hold either.
  const Mapping* const mapping = MappingAt(static_cast<const char*>(info->si_addr));
  if (mapping == nullptr) {
    signal(signal_number, SIG_DFL);  // The instruction that failed is repeated when this handler returns.
    return;
  }
  Write(program_invocation_short_name);
  Write(": error: ");
  Write(mapping->path.data());
  Write(": expected a file that stays as it was when it was opened, found it cut short or unreadable\n");
  // No destructors: they are not safe in a signal handler.
  _exit(kInvalidInput);
}

bool HandleBusErrors() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

void EndForChangedFile(const std::string& path) {
  Write(absl::StrCat(program_invocation_short_name, ": error: ", path,
                     ": expected a file that stays as it was when it was checked, found a number out of range: it is "
                     "damaged or was changed; --check reads all of it\n")
            .c_str());
  _exit(kInvalidInput);
}

absl::Status CheckFolderOf(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  folder = folder.empty() ? "." : folder;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat(path, ": its folder does not exist: create it first"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": its folder cannot be written to: ", std::strerror(errno)));
  }
  // A file that cannot be replaced would be found out only at the end of a long run.
  if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be written: ", std::strerror(errno)));
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
  // A renamed file is durable only once its folder is (fsync(2)).
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

std::error_code MakeFolders(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return {};
  }
  if (const std::error_code above = MakeFolders(path.parent_path()); above) {
    return above;
  }
  // create_directories would ask for 0777, which some umasks leave writable for everybody.
  if (mkdir(path.c_str(), kFolderMode) == 0 || std::filesystem::is_directory(path, ignored)) {
    return {};  // Also where another process was faster.
  }
  return {errno == EEXIST ? ENOTDIR : errno, std::generic_category()};
}

absl::Status CheckOwnTable(const std::string& path, absl::string_view header) {
  std::error_code error;
  // An operator's typo must not cost a privacy account or a key.
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found || (fs::is_regular_file(found) && BeginsWith(path, header))) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(path,
                                               ": expected no file of this name, or an earlier table or page of this "
                                               "tool, which begins alike, found a different file; it stays"));
}

bool NameSameFile(const std::string& path, const std::string& other) {
  std::error_code ignored;
  return Resolved(path) == Resolved(other) || fs::equivalent(path, other, ignored);
}

void NoteMappedFile(absl::string_view mapped, const std::string& path) {
  static const bool handled = HandleBusErrors();
  (void)handled;
  for (Mapping& mapping : mappings) {
    if (!mapping.taken.exchange(true)) {
      mapping.size = mapped.size();
      mapping.path.fill('\0');
      path.copy(mapping.path.data(), kMaxPath - 1);
      // Written last: the handler must never see a begin without its size and path.
      mapping.begin = mapped.data();
      return;
    }
  }
}

void ForgetMappedFile(absl::string_view mapped) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin == mapped.data()) {
      // Cleared before the memory is given back, which may be mapped again by something else.
      mapping.begin = nullptr;
      mapping.taken = false;
      return;
    }
  }
}

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
    return absl::FailedPreconditionError(absl::StrCat(path_, ": the file is finished already"));
  }
  // fwrite takes no null, which is what empty bytes may point to.
  if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) {
    return WriteError(path_, errno);
  }
  return absl::OkStatus();
}

absl::Status PendingFile::Finish() {
  if (file_ == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": the file is finished already"));
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
