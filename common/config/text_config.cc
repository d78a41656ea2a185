#include "common/config/text_config.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

#include "common/config/message_validator.h"
#include "common/config/text_error.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using google::protobuf::TextFormat;

// Far above any configuration; keeps a mistyped path to a data file from being read whole.
constexpr std::uintmax_t kMaxConfigBytes = 4 << 20;

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!error_) {
      error_ = TextError{line, column, "", "well-formed text", absl::StrCat("an error: ", message), ""};
    }
  }
  TextError error() const { return error_.value_or(TextError{0, 0, "", "well-formed text", "an error", ""}); }

 private:
  std::optional<TextError> error_;
};

absl::Status ToStatus(absl::string_view name, const TextError& error) {
  const std::string field = error.field.empty() ? "" : absl::StrCat(error.field, ": ");
  const std::string what =
      error.renamed.empty() ? absl::StrCat("expected ", error.expected, ", found ", error.found) : error.renamed;
  return absl::InvalidArgumentError(absl::StrCat(name, ":", error.line + 1, ":", error.column + 1, ": ", field, what));
}

}  // namespace

absl::Status ParseTextConfig(absl::string_view text, absl::string_view name, google::protobuf::Message& message) {
  const std::string owned(text);
  FirstError collector;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&locations);
  if (!parser.ParseFromString(owned, &message)) {
    return ToStatus(name, FindTextError(owned, *message.GetDescriptor()).value_or(collector.error()));
  }
  return ValidateParsedMessage(message, locations, name);
}

absl::StatusOr<std::string> ReadTextConfig(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status file = std::filesystem::status(path, error);
  if (!std::filesystem::exists(file)) {
    return absl::NotFoundError(absl::StrCat(path, ": expected a configuration file, found nothing of that name"));
  }
  if (std::filesystem::is_directory(file)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a configuration file, found a folder"));
  }
  const std::uintmax_t bytes = std::filesystem::is_regular_file(file) ? std::filesystem::file_size(path, error) : 0;
  if (!error && bytes > kMaxConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a configuration of at most ", kMaxConfigBytes, " bytes, found ", bytes));
  }
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream.is_open() || stream.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a readable file, found one that cannot be read"));
  }
  return text;
}

absl::Status LoadTextConfig(const std::string& path, google::protobuf::Message& message) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadTextConfig(path));
  return ParseTextConfig(text, path, message);
}

std::string ResolvePath(absl::string_view config_path, absl::string_view path) {
  if (path.empty()) {
    return "";
  }
  // Joining with an absolute path gives that path.
  const std::filesystem::path folder = std::filesystem::path(std::string(config_path)).parent_path();
  return (folder / std::string(path)).string();
}

}  // namespace splitveil
