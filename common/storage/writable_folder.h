// Whether a file could be made where a run is to keep one.
#ifndef SPLITVEIL_COMMON_STORAGE_WRITABLE_FOLDER_H_
#define SPLITVEIL_COMMON_STORAGE_WRITABLE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace splitveil {

// That the folder of the file `path` is there and can be written to, and the file, where there is one. Makes nothing.
// Errors: NotFound, InvalidArgument with the path, what was expected and found.
absl::Status CheckFolderOf(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_WRITABLE_FOLDER_H_
