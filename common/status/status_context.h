// Where an error happened, before what it says.
#ifndef SPLITVEIL_COMMON_STATUS_STATUS_CONTEXT_H_
#define SPLITVEIL_COMMON_STATUS_STATUS_CONTEXT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Puts "`where`: " before an error's message: a file, a field, a flag. Keeps the code, drops payloads. OK stays OK.
inline absl::Status Within(absl::string_view where, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STATUS_STATUS_CONTEXT_H_
