#include "common/config/text_error.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "common/config/message_validator.h"
#include "common/config/renamed_names.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using google::protobuf::io::Tokenizer;

constexpr size_t kMaxFoundText = 60;

// Levenshtein distance.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// What may stand where `name` does not: the nearest name if one is near, else all of them.
std::string KnownFields(const Descriptor& type, const std::string& name) {
  std::string nearest;
  size_t nearest_distance = std::max<size_t>(2, name.size() / 2) + 1;
  std::string all;
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& known = type.field(i)->name();
    absl::StrAppend(&all, i == 0 ? "" : ", ", known);
    const size_t distance = EditDistance(name, known);
    if (distance < nearest_distance) {
      nearest = known;
      nearest_distance = distance;
    }
  }
  if (!nearest.empty()) {
    return absl::StrCat("a field of ", type.name(), ", perhaps ", nearest);
  }
  return all.empty() ? absl::StrCat("no field, for ", type.name(), " has none")
                     : absl::StrCat("a field of ", type.name(), " (", all, ")");
}

// Reads the text as TextFormat does, by recursive descent along the schema. Every method returns false once error_ is
// set. An unknown field ends the walk, so the depth is that of the schema.
class TextReader : private google::protobuf::io::ErrorCollector {
 public:
  explicit TextReader(const std::string& text)
      : input_(text.data(), static_cast<int>(text.size())), tokenizer_(&input_, this) {
    tokenizer_.set_allow_f_after_float(true);
    tokenizer_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokenizer_.set_require_space_after_number(false);
    tokenizer_.Next();
  }

  std::optional<TextError> Read(const Descriptor& schema) {
    ReadFields(schema, "", "");
    return error_;
  }

 private:
  // Fields up to `close` ("" for the end of the text).
  bool ReadFields(const Descriptor& type, const std::string& prefix, const std::string& close) {
    std::map<const void*, std::string> seen;  // Singular field or oneof -> name of the field that set it.
    while (!error_ && !AtEnd(close)) {
      path_ = prefix.empty() ? type.name() : prefix.substr(0, prefix.size() - 1);
      if (token().type != Tokenizer::TYPE_IDENTIFIER) {
        return Fail("the name of a field of " + type.name() + (close.empty() ? "" : " or \"" + close + "\""));
      }
      const FieldDescriptor* field = type.FindFieldByName(token().text);
      path_ = prefix + token().text;
      if (field == nullptr) {
        if (const std::optional<std::string> new_name = NewNameOf(type, token().text); new_name.has_value()) {
          return FailRenamed(absl::StrCat("was renamed to ", *new_name));
        }
        return Fail(KnownFields(type, token().text));
      }
      if (!field->is_repeated()) {
        const OneofDescriptor* oneof = field->real_containing_oneof();
        const void* slot = oneof == nullptr ? static_cast<const void*>(field) : oneof;
        const auto [earlier, first] = seen.emplace(slot, field->name());
        if (!first) {
          return Fail(oneof == nullptr ? "the field once" : "only one of " + OneofNames(*oneof),
                      oneof == nullptr ? "it again" : field->name() + " beside " + earlier->second);
        }
      }
      Advance();
      if (!ReadFieldValue(*field)) {
        return false;
      }
      if (token().text == ";" || token().text == ",") {
        Advance();
      }
    }
    return !error_;
  }

  bool ReadFieldValue(const FieldDescriptor& field) {
    const std::string path = path_;
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (token().text == ":") {
      Advance();
    } else if (!is_message) {
      return Fail("\":\" and a value");
    }
    if (token().text != "[" || !field.is_repeated()) {
      return ReadValue(field, path);
    }
    Advance();
    while (!error_ && token().text != "]") {
      path_ = path;
      if (!ReadValue(field, path)) {
        return false;
      }
      path_ = path;
      if (token().text == ",") {
        Advance();
      } else if (token().text != "]") {
        return Fail("\",\" or \"]\"");
      }
    }
    Advance();
    return !error_;
  }

  bool ReadValue(const FieldDescriptor& field, const std::string& path) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadScalar(field);
    }
    if (token().text != "{" && token().text != "<") {
      return Fail("\"{\" and the fields of " + field.message_type()->name());
    }
    const std::string close = token().text == "{" ? "}" : ">";
    Advance();
    if (!ReadFields(*field.message_type(), path + ".", close)) {
      return false;
    }
    Advance();
    return !error_;
  }

  bool ReadScalar(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        if (token().type != Tokenizer::TYPE_STRING) {
          return Fail("a string in quotes");
        }
        while (token().type == Tokenizer::TYPE_STRING) {  // Adjacent strings are joined.
          Advance();
        }
        return !error_;
      case FieldDescriptor::CPPTYPE_BOOL:
        return ReadIf(IsOneOf({"true", "false", "True", "False", "t", "f", "0", "1"}), "true or false");
      case FieldDescriptor::CPPTYPE_ENUM:
        return ReadEnum(field);
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return ReadNumber();
      case FieldDescriptor::CPPTYPE_INT32:
        return ReadInteger(field, std::numeric_limits<int32_t>::max(), true);
      case FieldDescriptor::CPPTYPE_INT64:
        return ReadInteger(field, std::numeric_limits<int64_t>::max(), true);
      case FieldDescriptor::CPPTYPE_UINT32:
        return ReadInteger(field, std::numeric_limits<uint32_t>::max(), false);
      default:
        return ReadInteger(field, std::numeric_limits<uint64_t>::max(), false);
    }
  }

  bool ReadEnum(const FieldDescriptor& field) {
    const auto& type = *field.enum_type();
    const bool known = token().type == Tokenizer::TYPE_IDENTIFIER && type.FindValueByName(token().text) != nullptr;
    uint64_t number = 0;
    const bool numbered = token().type == Tokenizer::TYPE_INTEGER &&
                          Tokenizer::ParseInteger(token().text, std::numeric_limits<int32_t>::max(), &number) &&
                          type.FindValueByNumber(static_cast<int>(number)) != nullptr;
    if (const std::optional<std::string> new_name = NewNameOf(type, token().text); !known && new_name.has_value()) {
      return FailRenamed(absl::StrCat(token().text, " was renamed to ", *new_name));
    }
    return ReadIf(known || numbered, EnumNames(type));
  }

  bool ReadNumber() {
    SkipMinus();
    const std::string lower = absl::AsciiStrToLower(token().text);
    const bool special =
        token().type == Tokenizer::TYPE_IDENTIFIER && (lower == "inf" || lower == "infinity" || lower == "nan" ||
                                                       lower == "inff" || lower == "infinityf" || lower == "nanf");
    return ReadIf(token().type == Tokenizer::TYPE_INTEGER || token().type == Tokenizer::TYPE_FLOAT || special,
                  "a number");
  }

  bool ReadInteger(const FieldDescriptor& field, uint64_t max, bool is_signed) {
    // The field's own range where it has one: that of its type helps nobody.
    const std::string whole =
        absl::StrCat("a whole number from ", is_signed ? absl::StrCat("-", max + 1) : "0", " to ", max);
    const std::string expected = HasRange(field) ? absl::StrCat("a whole number, ", RangeText(field)) : whole;
    if (!is_signed && token().text == "-") {
      return Fail(expected, "a negative number");
    }
    const bool negative = SkipMinus();
    uint64_t number = 0;
    const bool fits = token().type == Tokenizer::TYPE_INTEGER &&
                      Tokenizer::ParseInteger(token().text, max + (negative ? 1 : 0), &number);
    return ReadIf(fits, expected);
  }

  bool SkipMinus() {
    if (token().text != "-") {
      return false;
    }
    Advance();
    return true;
  }

  bool ReadIf(bool fits, const std::string& expected) {
    if (!fits) {
      return Fail(expected);
    }
    Advance();
    return !error_;
  }

  bool IsOneOf(std::initializer_list<const char*> texts) {
    return std::find(texts.begin(), texts.end(), token().text) != texts.end();
  }

  bool AtEnd(const std::string& close) {
    return close.empty() ? token().type == Tokenizer::TYPE_END : token().text == close;
  }

  const Tokenizer::Token& token() { return tokenizer_.current(); }
  void Advance() { tokenizer_.Next(); }

  bool Fail(const std::string& expected, std::string found = "") {
    if (!error_) {
      if (found.empty()) {
        std::string text = token().text.substr(0, kMaxFoundText);
        std::replace_if(
            text.begin(), text.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
        found = token().type == Tokenizer::TYPE_END      ? "the end of the file"
                : token().type == Tokenizer::TYPE_STRING ? "the string " + text
                                                         : "\"" + text + "\"";
      }
      error_ = TextError{token().line, token().column, path_, expected, found, ""};
    }
    return false;
  }

  bool FailRenamed(const std::string& renamed) {
    Fail("another name");
    error_->renamed = renamed;
    return false;
  }

  // A malformed token.
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!error_) {
      error_ = TextError{line, column, path_, "well-formed text", absl::StrCat("an error: ", message), ""};
    }
  }

  google::protobuf::io::ArrayInputStream input_;
  Tokenizer tokenizer_;
  std::string path_;
  std::optional<TextError> error_;
};

}  // namespace

std::optional<TextError> FindTextError(const std::string& text, const Descriptor& schema) {
  return TextReader(text).Read(schema);
}

}  // namespace splitveil
