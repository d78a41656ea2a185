// New names that survive a power cut.
#ifndef SPLITVEIL_COMMON_STORAGE_SYNC_FOLDER_H_
#define SPLITVEIL_COMMON_STORAGE_SYNC_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// A name is on the disk once its folder is: syncs that of `path`. OK where the file system cannot sync folders.
// Internal where the folder cannot be opened or written. Thread-safe.
absl::Status SyncFolderOf(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_SYNC_FOLDER_H_
