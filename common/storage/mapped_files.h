// Which files this process has mapped into its memory, for the signal that ends it when one of them gives way.
#ifndef SPLITVEIL_COMMON_STORAGE_MAPPED_FILES_H_
#define SPLITVEIL_COMMON_STORAGE_MAPPED_FILES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// A mapped file that somebody cuts short, or a disk that fails, shows as SIGBUS where a byte of it is read, in the
// middle of any function. From the first call on, that ends the process with exit code 2 and one line on standard error
// that names the file; any other SIGBUS ends it as if there were no handler. Nothing is sent or recorded any more: the
// peer finds the connection closed. Thread-safe. The first 256 mappings are known by their names.

// `mapped`: of the file `path`, until ForgetMappedFile.
void NoteMappedFile(absl::string_view mapped, const std::string& path);
void ForgetMappedFile(absl::string_view mapped);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_MAPPED_FILES_H_
