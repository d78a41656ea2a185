// Where this machine keeps its files, which no peer may learn from an error.
#ifndef SPLITVEIL_COMMON_PROCESS_LOCAL_PATHS_H_
#define SPLITVEIL_COMMON_PROCESS_LOCAL_PATHS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// Notes a path as configured, relative or absolute, for the rest of the process. A name without a folder says nothing
// of the machine and is not noted. Thread-safe.
void NoteLocalPath(const std::string& path);

// `message` with "a file" for each path: what begins with a noted path or with its folder, and any absolute path. A
// word too much may be hidden, never half a path shown. Thread-safe.
std::string WithoutLocalPaths(absl::string_view message);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_LOCAL_PATHS_H_
