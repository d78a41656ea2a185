// Which files a command may put a table into.
#ifndef SPLITVEIL_COMMON_STORAGE_OWN_TABLE_H_
#define SPLITVEIL_COMMON_STORAGE_OWN_TABLE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Whether a table that begins with the line `header`, its end included, may be written to `path`: nothing has the name,
// or a file that begins with the same line, an earlier table. Error: AlreadyExists for anything else, which a mistyped
// path may be: a privacy account, a checkpoint, a key.
absl::Status CheckOwnTable(const std::string& path, absl::string_view header);

// Whether both paths are of one file, by whatever links, or would be once it is written.
bool NameSameFile(const std::string& path, const std::string& other);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_OWN_TABLE_H_
