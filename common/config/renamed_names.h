// Names that configurations used to have, and what they were renamed to. A rename of a field or an enum value is one
// line here, so that nobody is left with "unknown field" for a file that worked.
#ifndef SPLITVEIL_COMMON_CONFIG_RENAMED_NAMES_H_
#define SPLITVEIL_COMMON_CONFIG_RENAMED_NAMES_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"

namespace splitveil {

struct RenamedName {
  absl::string_view owner;  // The message of a field, the enum of a value; without the package.
  absl::string_view old_name;
  absl::string_view new_name;  // One of the owner's names, first; behind it what else is to be said.
};

absl::Span<const RenamedName> RenamedNames();

// What field or value `name` was renamed to; nullopt where it never was one.
std::optional<std::string> NewNameOf(const google::protobuf::Descriptor& type, absl::string_view name);
std::optional<std::string> NewNameOf(const google::protobuf::EnumDescriptor& type, absl::string_view name);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_RENAMED_NAMES_H_
