// Files and folders on disk: who may read them, and names that survive a power cut.
#ifndef SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
#define SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

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

// Whether a table that begins with the line `header`, its end included, may be written to `path`: nothing has the name,
// or a file that begins with the same line, an earlier table. Error: AlreadyExists for anything else, which a mistyped
// path may be: a privacy account, a checkpoint, a key.
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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_FILE_SYSTEM_H_
