// Files and folders on disk: who may read them, and names that survive a power cut.
#ifndef SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
#define SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
