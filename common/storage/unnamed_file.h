// Files that have no name in any folder.
#ifndef SPLITVEIL_COMMON_STORAGE_UNNAMED_FILE_H_
#define SPLITVEIL_COMMON_STORAGE_UNNAMED_FILE_H_

#include <sys/types.h>

#include <string>

namespace splitveil {

// What an open file is called, whether or not it has a name in a folder.
std::string NameOfDescriptor(int descriptor);

// Opens a new file on the file system of `path`, in its folder, that vanishes with its descriptor, also where the
// process is killed. `access`: O_WRONLY or O_RDWR. -1 with errno where that cannot be had: EOPNOTSUPP, EISDIR or ENOENT
// from a file system or system that knows no such files. Thread-safe.
int OpenUnnamed(const std::string& path, int access, mode_t mode);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_UNNAMED_FILE_H_
