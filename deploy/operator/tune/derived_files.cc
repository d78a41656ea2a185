#include "deploy/operator/tune/derived_files.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "common/config/text_config.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {

std::string DerivedPath(const DerivedKind& kind, const std::string& path) {
  const size_t end = path.rfind(".textproto");
  return absl::StrCat(path.substr(0, end == path.npos ? path.size() : end), ".", kind.name, ".textproto");
}

absl::Status ReadAsWritten(const std::string& path, google::protobuf::Message& message) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadTextConfig(path));
  return ParseTextConfig(text, path, message);
}

absl::Status CheckDerivedPath(const DerivedKind& kind, const std::string& path) {
  const std::string derived = DerivedPath(kind, path);
  const absl::StatusOr<std::string> there = ReadFile(derived);
  return absl::IsNotFound(there.status()) || (there.ok() && absl::StartsWith(*there, kind.first_line))
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(derived, ": is there, and `splitveil ", kind.command,
                                                       "` did not write it: move it, because the result goes there"));
}

absl::Status WriteDerived(const DerivedKind& kind, const std::string& path, const std::string& why,
                          const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return WriteFile(DerivedPath(kind, path), absl::StrCat(kind.first_line, "# ", why, "\n# Of ", path,
                                                         ", whose comments are not repeated.\n", text));
}

}  // namespace splitveil
