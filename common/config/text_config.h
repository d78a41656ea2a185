// Text-format configuration with errors a person can act on.
#ifndef SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
#define SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace splitveil {

// Parses `path` into `message` and checks required fields, ranges and oneofs by the schema's options. Errors: NotFound;
// InvalidArgument as one line: FILE:LINE:COLUMN: FIELD: expected …, found ….
absl::Status LoadTextConfig(const std::string& path, google::protobuf::Message& message);

// What LoadTextConfig parses. Errors: NotFound; InvalidArgument for a folder, a file too large for a configuration and
// one that cannot be read.
absl::StatusOr<std::string> ReadTextConfig(const std::string& path);

// As LoadTextConfig, from memory; `name` stands for the file in errors.
absl::Status ParseTextConfig(absl::string_view text, absl::string_view name, google::protobuf::Message& message);

// `path` relative to the folder of the configuration file `config_path`; absolute and empty paths unchanged.
std::string ResolvePath(absl::string_view config_path, absl::string_view path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
