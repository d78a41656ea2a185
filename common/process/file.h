// Whole small files: certificates, tables, results.
#ifndef SPLITVEIL_COMMON_PROCESS_FILE_H_
#define SPLITVEIL_COMMON_PROCESS_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/storage/file_system.h"

namespace splitveil {

// Contents of `path`. Errors: NotFound; InvalidArgument if it cannot be opened or read (a folder, no permission).
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path`, replacing what had the name, as a PendingFile (common/storage): readers see the old contents or the
// new, complete and on the disk, and nothing is left behind on failure, by a process that is killed neither. `mode`:
// permissions, narrowed by the umask; by default the owner's alone, as most of what is written here reveals ids,
// labels or what leaks of them. Errors: InvalidArgument if the file cannot be made (no such folder, no permission);
// Internal if it cannot be written (the disk is full).
absl::Status WriteFile(const std::string& path, absl::string_view contents, mode_t mode = kOwnerOnly);

// As WriteFile, but never replaces: AlreadyExists if anything has the name, a dangling link included.
absl::Status CreateFile(const std::string& path, absl::string_view contents, mode_t mode = kOwnerOnly);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_FILE_H_
