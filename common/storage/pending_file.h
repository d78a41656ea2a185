// Files that appear complete or not at all.
#ifndef SPLITVEIL_COMMON_STORAGE_PENDING_FILE_H_
#define SPLITVEIL_COMMON_STORAGE_PENDING_FILE_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/storage/file_system.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_STORAGE_PENDING_FILE_H_
