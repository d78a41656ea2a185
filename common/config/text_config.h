// Text-format configuration with errors a person can act on.
#ifndef SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
#define SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace splitveil {

// Parses `path` into `message`, checks required fields, ranges and oneofs by the schema's options, and resolves the
// paths in it against the folder of `path` (config_paths.h). Errors: NotFound; InvalidArgument as one line:
// FILE:LINE:COLUMN: FIELD: expected …, found ….
absl::Status LoadTextConfig(const std::string& path, google::protobuf::Message& message);

// What LoadTextConfig parses. Errors: NotFound; InvalidArgument for a folder, a file too large for a configuration and
// one that cannot be read.
absl::StatusOr<std::string> ReadTextConfig(const std::string& path);

// As LoadTextConfig, from memory and with its paths as they are; `name` stands for the file in errors.
absl::Status ParseTextConfig(absl::string_view text, absl::string_view name, google::protobuf::Message& message);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
