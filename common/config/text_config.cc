#include "common/config/text_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

#include "common/config/message_validator.h"
#include "common/naming/nearest_name.h"
#include "common/process/local_paths.h"
#include "common/status/status_macros.h"

#include "splitveil/v1/options.pb.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;
using google::protobuf::io::ColumnNumber;
using google::protobuf::io::Tokenizer;

// Far above any configuration; keeps a mistyped path to a data file from being read whole.
constexpr std::uintmax_t kMaxConfigBytes = 4 << 20;
constexpr size_t kMaxFoundText = 60;

// The first error of a parser, which reports what follows from it too.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, ColumnNumber column, const std::string& message) override {
    // Later errors follow from the first one and only confuse.
    if (message_.empty()) {
      line_ = line;
      column_ = column;
      message_ = message;
    }
  }

  int line() const { return line_; }
  ColumnNumber column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0;
  ColumnNumber column_ = 0;
  std::string message_;
};

// Where in a text an error was reported: Protobuf's parser knows the line and column, but not the path of the field,
// and it reports a name or an enum value that it does not know one token late.
struct ErrorPlace {
  std::vector<std::string> open;  // Names of the messages around it.
  std::string field;              // The field whose name was read last in them; empty for none.
  Tokenizer::Token before, at;
};

ErrorPlace FindPlace(const std::string& text, const FirstError& error) {
  FirstError ignored;
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  Tokenizer tokens(&input, &ignored);
  tokens.set_allow_f_after_float(true);
  // The same settings as the text format's own parser, or the places would differ.
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokens.set_require_space_after_number(false);
  ErrorPlace place;
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    if (token.line > error.line() || (token.line == error.line() && token.column >= error.column())) {
      break;
    }
    if (token.type == Tokenizer::TYPE_IDENTIFIER && place.before.text != ":") {
      place.field = token.text;
    } else if (token.text == "{" || token.text == "<") {
      place.open.push_back(std::exchange(place.field, ""));
    } else if ((token.text == "}" || token.text == ">") && !place.open.empty()) {
      place.field = place.open.back();  // Of a list of messages another may follow.
      place.open.pop_back();
    }
    place.before = token;
  }
  place.at = tokens.current();
  return place;
}

// The message type at the end of `names`, read from `type` on; null where there is no such field.
const Descriptor* TypeAt(const Descriptor* type, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const FieldDescriptor* const field = type == nullptr ? nullptr : type->FindFieldByName(name);
    type = field == nullptr ? nullptr : field->message_type();
  }
  return type;
}

// What may stand where a field that `type` does not have stands: the nearest name if one is near, else all of them.
std::string KnownFields(const Descriptor& type, const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  if (names.empty()) {
    return absl::StrCat("no field, for ", type.name(), " has none");
  }
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? absl::StrCat("a field of ", type.name(), " (", absl::StrJoin(names, ", "), ")")
                         : absl::StrCat("a field of ", type.name(), ", perhaps ", nearest);
}

// What a value of `field` looks like.
std::string KnownValues(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "a string in quotes";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumNames(*field.enum_type());
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("\"{\" and the fields of ", field.message_type()->name());
    default:  // The field's own range if it has one; the range of its type helps nobody.
      return HasRange(field)                                       ? absl::StrCat("a whole number, ", RangeText(field))
             : field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 ? "a whole number of at least 0"
                                                                   : "a whole number";
  }
}

std::string Found(const Tokenizer::Token& token) {
  std::string text = token.text.substr(0, kMaxFoundText);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
  return token.type == Tokenizer::TYPE_END      ? "the end of the file"
         : token.type == Tokenizer::TYPE_STRING ? absl::StrCat("the string ", text)
                                                : absl::StrCat("\"", text, "\"");
}

// Of `Field "a" is specified along with field "b", another member of oneof "c".`: b.
std::string NameOfOther(const std::string& message) {
  const std::vector<std::string> parts = absl::StrSplit(message, '"');
  return parts.size() > 3 ? parts[3] : "another member";
}

absl::Status TextError(absl::string_view name, const std::string& text, const FirstError& error,
                       const Descriptor& schema) {
  const ErrorPlace place = FindPlace(text, error);
  const Descriptor* const type = TypeAt(&schema, place.open);
  const FieldDescriptor* const field = type == nullptr ? nullptr : type->FindFieldByName(place.field);
  const std::string& message = error.message();
  // Protobuf's words for these are in google/protobuf/text_format.cc. Other words come out as they are.
  const bool unknown_field = absl::StrContains(message, "has no field named");
  const bool late = unknown_field || absl::StartsWith(message, "Unknown enumeration value") ||
                    absl::StartsWith(message, "Invalid value for boolean") ||
                    absl::StartsWith(message, "Non-repeated field") || absl::StartsWith(message, "Field ");
  const Tokenizer::Token& token = late ? place.before : place.at;
  // Whether the error is about a value: then the field says which values it takes.
  const bool value = field != nullptr && (late || place.before.text == ":" || place.before.text == "[" ||
                                          place.before.text == "-" || place.before.text == place.field);
  std::string what;
  if (unknown_field && type != nullptr) {
    what = absl::StrCat("expected ", KnownFields(*type, place.field), ", found ", Found(token));
  } else if (absl::StartsWith(message, "Non-repeated field")) {
    what = "the field is set twice: keep one";
  } else if (absl::StartsWith(message, "Field ") && field != nullptr && field->real_containing_oneof() != nullptr) {
    what = absl::StrCat("expected only one of ", OneofNames(*field->real_containing_oneof()), ", found ", place.field,
                        " beside ", NameOfOther(message));
  } else if (value && !absl::StrContains(message, "\":\"") && !absl::StartsWith(message, "String literals")) {
    what = absl::StrCat("expected ", KnownValues(*field), ", found ", Found(token));
  } else {
    what = absl::StrCat("malformed text: ", message, place.at.type == Tokenizer::TYPE_END ? "the end of the file" : "");
  }
  std::vector<std::string> path = place.open;
  if (!place.field.empty()) {
    path.push_back(place.field);
  }
  const std::string where = path.empty() ? "" : absl::StrCat(absl::StrJoin(path, "."), ": ");
  std::string line = absl::StrCat(where, what);
  // The text may be any file: no control characters may reach the terminal.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return absl::ascii_iscntrl(c); }, '?');
  const int row = late ? token.line : error.line(), column = late ? token.column : error.column();
  return absl::InvalidArgumentError(absl::StrCat(name, ":", row + 1, ":", column + 1, ": ", line));
}

}  // namespace

absl::Status ParseTextConfig(absl::string_view text, absl::string_view name, google::protobuf::Message& message) {
  const std::string owned(text);
  FirstError error;
  TextFormat::ParseInfoTree locations;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&locations);
  if (!parser.ParseFromString(owned, &message)) {
    return TextError(name, owned, error, *message.GetDescriptor());
  }
  return ValidateParsedMessage(message, locations, name);
}

absl::StatusOr<std::string> ReadTextConfig(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status file = std::filesystem::status(path, error);
  if (!std::filesystem::exists(file)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  if (std::filesystem::is_directory(file)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a configuration file"));
  }
  const std::uintmax_t bytes = std::filesystem::is_regular_file(file) ? std::filesystem::file_size(path, error) : 0;
  // Only regular files have a size; a pipe (`<(...)`) is read to its end.
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
  SPLITVEIL_RETURN_IF_ERROR(ParseTextConfig(text, path, message));
  ResolvePaths(path, message);
  return absl::OkStatus();
}

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Calls `visit` on every path below `message`; what it makes of ConfigPath::path is written back.
void VisitPaths(Message& message, const std::string& prefix, absl::FunctionRef<void(ConfigPath&)> visit) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(message, &set);
  for (const FieldDescriptor* const field : set) {
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && !field->options().GetExtension(v1::path)) {
      continue;
    }
    for (int i = 0; i < (field->is_repeated() ? reflection.FieldSize(message, field) : 1); ++i) {
      const std::string name =
          absl::StrCat(prefix, field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      if (is_message) {
        VisitPaths(*(field->is_repeated() ? reflection.MutableRepeatedMessage(&message, field, i)
                                          : reflection.MutableMessage(&message, field)),
                   name + ".", visit);
        continue;
      }
      ConfigPath path = {field, name,
                         field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                              : reflection.GetString(message, field)};
      if (path.path.empty()) {
        continue;  // Empty means "none", which the folder of a configuration must not replace.
      }
      visit(path);
      if (field->is_repeated()) {
        reflection.SetRepeatedString(&message, field, i, std::move(path.path));
      } else {
        reflection.SetString(&message, field, std::move(path.path));
      }
    }
  }
}

}  // namespace

std::vector<ConfigPath> ListPaths(const Message& message) {
  // One walk serves both reading and writing; a configuration is small enough to copy.
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  std::vector<ConfigPath> paths;
  VisitPaths(*copy, "", [&](ConfigPath& path) { paths.push_back(path); });
  return paths;
}

bool IsOwnerOnly(const ConfigPath& path) { return path.field->options().GetExtension(v1::owner_only); }

void ResolvePaths(absl::string_view config_path, Message& message) {
  const std::filesystem::path folder = std::filesystem::path(std::string(config_path)).parent_path();
  NoteLocalPath(std::string(config_path));
  VisitPaths(message, "", [&](ConfigPath& path) {
    path.path = (folder / path.path).string();  // Joining with an absolute path gives that path.
    NoteLocalPath(path.path);
  });
}

void MakePathsAbsolute(Message& message) {
  VisitPaths(message, "", [](ConfigPath& path) { path.path = AbsolutePath(path.path); });
}

std::string AbsolutePath(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace splitveil
