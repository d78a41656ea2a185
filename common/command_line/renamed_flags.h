// Names that flags used to have. A rename of a flag is one line here, so that nobody is left with "unknown flag" for a
// command line that worked.
#ifndef SPLITVEIL_COMMON_COMMAND_LINE_RENAMED_FLAGS_H_
#define SPLITVEIL_COMMON_COMMAND_LINE_RENAMED_FLAGS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace splitveil {

struct RenamedFlag {
  absl::string_view command;  // As one types it: "splitveil marvell".
  absl::string_view old_name;
  absl::string_view new_name;
};

absl::Span<const RenamedFlag> RenamedFlags();

// What `flag` ("--max_auc") of `command` was renamed to; empty where it never was one.
absl::string_view NewFlagOf(absl::string_view command, absl::string_view flag);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_COMMAND_LINE_RENAMED_FLAGS_H_
