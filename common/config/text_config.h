// Text-format configuration with errors a person can act on, and the files and folders that it names: string fields
// with the option (path) of proto/splitveil/v1/options.proto, found by reflection, so that a new one needs nothing but
// its option.
#ifndef SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
#define SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace splitveil {

// Parses `path` into `message`, checks required fields, ranges and oneofs by the schema's options, and resolves the
// paths in it against the folder of `path` (ResolvePaths). Errors: NotFound; InvalidArgument as one line:
// FILE:LINE:COLUMN: FIELD: expected …, found ….
absl::Status LoadTextConfig(const std::string& path, google::protobuf::Message& message);

// What LoadTextConfig parses. Errors: NotFound; InvalidArgument for a folder, a file too large for a configuration and
// one that cannot be read.
absl::StatusOr<std::string> ReadTextConfig(const std::string& path);

// As LoadTextConfig, from memory and with its paths as they are; `name` stands for the file in errors.
absl::Status ParseTextConfig(absl::string_view text, absl::string_view name, google::protobuf::Message& message);

struct ConfigPath {
  const google::protobuf::FieldDescriptor* field;
  std::string name;  // From the message on, such as "party.dataset.path" or "day[1].label_dataset".
  std::string path;  // Never empty.
};

// Every path that is set in `message` and in the messages below it, in the order of the schema.
std::vector<ConfigPath> ListPaths(const google::protobuf::Message& message);

// Whether the file reveals what only its owner may read: option (owner_only).
bool IsOwnerOnly(const ConfigPath& path);

// Reads each of these paths as relative to the folder of the configuration file `config_path`; absolute ones stay as
// they are. LoadTextConfig calls this, so that nothing behind it needs to know where the configuration was.
void ResolvePaths(absl::string_view config_path, google::protobuf::Message& message);

// Makes each absolute and without "." and "..", so that it holds in a configuration in any folder. To be called on
// resolved paths: relative ones are taken from the working directory.
void MakePathsAbsolute(google::protobuf::Message& message);

// The same of a path of the command line.
std::string AbsolutePath(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_TEXT_CONFIG_H_
