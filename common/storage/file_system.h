// Files and folders on disk: who may read them, names that survive a power cut, and files that appear complete or not
// at all.
#ifndef SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
#define SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace splitveil {

// Permissions of a file that its owner alone reads and writes: most of them tell of ids, labels or what leaks of them.
inline constexpr mode_t kOwnerOnly = 0600;

// Permissions of a file that others may read. Whatever the umask, only the owner may put another certificate or
// agreement there.
inline constexpr mode_t kPublicMode = 0644;

// Makes `path` and the folders above it that are missing, with mode 0755 less the umask: anyone who may write to a
// folder may replace a key or a trust anchor in it. As std::filesystem::create_directories otherwise: what is there
// stays as it is.
std::error_code MakeFolders(const std::filesystem::path& path);

// A name is on the disk once its folder is: syncs that of `path`. OK where the file system cannot sync folders.
// Internal where the folder cannot be opened or written. Thread-safe.
absl::Status SyncFolderOf(const std::string& path);

// What an open file is called, whether or not it has a name in a folder.
std::string NameOfDescriptor(int descriptor);

// Opens a new file on the file system of `path`, in its folder, that vanishes with its descriptor, also where the
// process is killed. `access`: O_WRONLY or O_RDWR. -1 with errno where that cannot be had: EOPNOTSUPP, EISDIR or ENOENT
// from a file system or system that knows no such files. Thread-safe.
int OpenUnnamed(const std::string& path, int access, mode_t mode);

// That the folder of the file `path` is there and can be written to, and the file, where there is one. Makes nothing.
// Errors: NotFound, InvalidArgument with the path, what was expected and found.
absl::Status CheckFolderOf(const std::string& path);

// Whether a table that begins with the line `header`, its end included, or a page that begins so, may be written to
// `path`: nothing has the name, or a file that begins alike, an earlier one. Error: AlreadyExists for anything else,
// which a mistyped path may be: a privacy account, a checkpoint, a key.
absl::Status CheckOwnTable(const std::string& path, absl::string_view header);

// Whether both paths are of one file, by whatever links, or would be once it is written.
bool NameSameFile(const std::string& path, const std::string& other);

// A mapped file that somebody cuts short, or a disk that fails, shows as SIGBUS where a byte of it is read, in the
// middle of any function. From the first call on, that ends the process with exit code 2 and one line on standard error
// that names the file; any other SIGBUS ends it as if there were no handler. Nothing is sent or recorded any more: the
// peer finds the connection closed. Thread-safe. The first 256 mappings are known by their names.

// `mapped`: of the file `path`, until ForgetMappedFile.
void NoteMappedFile(absl::string_view mapped, const std::string& path);
void ForgetMappedFile(absl::string_view mapped);

// Ends the process in the same way, for a number in the mapped file `path` that was in range when the file was checked.
[[noreturn]] void EndForChangedFile(const std::string& path);

// A file under construction. It has no name while it is written, in the folder it is meant for, and gets its own,
// replacing what had it, in Publish; until then, and when anything fails, no trace is left, by a process that is killed
// neither. Where the file system knows no files without a name (NFS, for one), it is written as `NAME.PID.partial`,
// which a killed process leaves and the next one of that number replaces. One object a path at a time. Not thread-safe.
class PendingFile {
 public:
  // InvalidArgument where the temporary cannot be made (no such folder, not writable); Internal where the disk or the
  // process has no room for it. `mode`: permissions, less the umask; by default the owner's alone, for most of what is
  // written here tells of ids, labels or weights.
  static absl::StatusOr<std::unique_ptr<PendingFile>> Create(std::string path, mode_t mode = kOwnerOnly);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  // Buffered. Internal where the bytes cannot be written (disk full); every later call then fails too.
  absl::Status Append(absl::string_view bytes);

  const std::string& path() const { return path_; }

  // Makes all of `files` durable (fsync), then gives them their names. Internal on failure, InvalidArgument where what
  // has the name cannot be replaced (a folder); either leaves the folder as it was: the older files stand under their
  // names again. Internal, too, where all have their names but a folder cannot be synced: then the new files stand, and
  // may not survive a power cut. A process that is killed between two names leaves what the first replaced as
  // `NAME.PID.replaced`.
  static absl::Status Publish(absl::Span<PendingFile* const> files);

  // Makes the file durable and gives it its name, where nothing has that, a dangling link included. AlreadyExists where
  // something has; Internal, InvalidArgument as Publish, and with no trace left but where the folder cannot be synced.
  // Once, in place of Publish.
  absl::Status PublishNew();

 private:
  PendingFile(std::string path, std::string temporary_path, std::FILE* file, bool named);
  // Makes what was appended durable.
  absl::Status Finish();
  absl::Status KeepReplaced();
  absl::Status TakeName();
  void GiveNameBack();

  std::string path_;
  std::string temporary_path_;
  std::string replaced_path_;  // Second name of what had `path_`, during Publish; empty: nothing had, or none is kept.
  std::FILE* file_;            // Null once it has its name, and where it could not be finished.
  bool named_;                 // Whether it stands in the folder as `temporary_path_`.
  bool published_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
