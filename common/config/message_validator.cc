#include "common/config/message_validator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"

#include "common/crypto/invariant.h"
#include "common/status/status_macros.h"

#include "splitveil/v1/options.pb.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

constexpr size_t kMaxValueText = 80;

// Shortest decimal that reads back as `value`.
std::string NumberText(double value) {
  std::string text;
  // 17 digits give every double, but 0.1 should read as 0.1.
  for (int digits = 6; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, value);
    if (std::stod(text) == value) {
      break;
    }
  }
  // 4e+09 and 1e-20 are how people write them; 1.04858e+06 is not.
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole && absl::StrContains(text, "e") ? absl::StrCat(static_cast<int64_t>(value)) : text;
}

std::string TextOf(const v1::Range& range, bool above_min) {
  std::vector<std::string> bounds;
  if (std::isfinite(range.min())) {
    bounds.push_back(absl::StrCat(above_min ? "above " : "at least ", NumberText(range.min())));
  }
  if (std::isfinite(range.max())) {
    bounds.push_back(absl::StrCat("at most ", NumberText(range.max())));
  }
  return bounds.empty() ? "a number" : absl::StrJoin(bounds, " and ");
}

// "A, B or C".
std::string Alternatives(const std::vector<std::string>& names) {
  if (names.size() < 2) {
    return absl::StrJoin(names, "");
  }
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "), " or ", names.back());
}

// Through the text, in which Protobuf writes every number exactly. NaN if the field is no number: a range on it fails
// for every value, so that the schema's author notices.
double NumberOf(const Message& message, const FieldDescriptor& field, int index) {
  double number = 0;
  return absl::SimpleAtod(ValueText(message, field, index), &number) ? number : std::nan("");
}

bool IsReal(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE || field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
}

// Walks one message; the first error ends the walk.
class Validator {
 public:
  Validator(absl::string_view name, const TextFormat::ParseInfoTree* locations) : name_(name), root_(locations) {}

  absl::Status Validate(const Message& message) const { return ValidateFields(message, {"", root_, {0, 0}}); }

 private:
  // Where a message stands: the path of its fields ("party.identity."), its locations (null where none are known) and
  // its own location.
  struct Place {
    std::string prefix;
    const TextFormat::ParseInfoTree* locations;
    TextFormat::ParseLocation start;
  };

  absl::Status ValidateFields(const Message& message, const Place& place) const {
    const Descriptor& type = *message.GetDescriptor();
    const auto& unknown = message.GetReflection()->GetUnknownFields(message);
    // A peer with a later schema may send settings that this version would silently not apply.
    if (!unknown.empty()) {
      return Error(place.start, place.prefix.empty() ? type.name() : place.prefix.substr(0, place.prefix.size() - 1),
                   "fields and values of the schema only",
                   absl::StrCat("field number ", unknown.field(0).number(), " with an unknown meaning"));
    }
    for (int i = 0; i < type.field_count(); ++i) {
      SPLITVEIL_RETURN_IF_ERROR(ValidateField(message, *type.field(i), place));
    }
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
      const OneofDescriptor& oneof = *type.oneof_decl(i);
      if (oneof.options().GetExtension(v1::required_oneof) && !message.GetReflection()->HasOneof(message, &oneof)) {
        return Error(place.start, place.prefix + oneof.name(), absl::StrCat("one of ", OneofNames(oneof)), "none");
      }
    }
    return absl::OkStatus();
  }

  absl::Status ValidateField(const Message& message, const FieldDescriptor& field, const Place& place) const {
    const Reflection& reflection = *message.GetReflection();
    const int count = field.is_repeated()                    ? reflection.FieldSize(message, &field)
                      : reflection.HasField(message, &field) ? 1
                                                             : 0;
    if (count == 0) {
      if (!field.options().GetExtension(v1::required)) {
        return absl::OkStatus();
      }
      return Error(place.start, place.prefix + field.name(),
                   field.is_repeated() ? "at least one element" : "a value, for it has no default", "none");
    }
    for (int i = 0; i < count; ++i) {
      SPLITVEIL_RETURN_IF_ERROR(ValidateValue(message, field, field.is_repeated() ? i : -1, place));
    }
    return absl::OkStatus();
  }

  // One value; `index` is -1 for a singular field, as in ParseInfoTree.
  absl::Status ValidateValue(const Message& message, const FieldDescriptor& field, int index,
                             const Place& place) const {
    const Reflection& reflection = *message.GetReflection();
    const std::string path = absl::StrCat(place.prefix, field.name(), index < 0 ? "" : absl::StrCat("[", index, "]"));
    const TextFormat::ParseLocation location =
        place.locations == nullptr ? place.start : place.locations->GetLocation(&field, index);
    const auto found = [&] { return Shortened(ValueText(message, field, index)); };

    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const Message& value =
          index < 0 ? reflection.GetMessage(message, &field) : reflection.GetRepeatedMessage(message, &field, index);
      const TextFormat::ParseInfoTree* nested =
          place.locations == nullptr ? nullptr : place.locations->GetTreeForNested(&field, index);
      return ValidateFields(value, {path + ".", nested, location});
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const EnumValueDescriptor& value =
          *(index < 0 ? reflection.GetEnum(message, &field) : reflection.GetRepeatedEnum(message, &field, index));
      if (IsUnspecified(value)) {
        return Error(location, path, EnumNames(*field.enum_type()), found());
      }
    }
    if (field.options().GetExtension(v1::required) && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
        (index < 0 ? reflection.GetString(message, &field) : reflection.GetRepeatedString(message, &field, index))
            .empty()) {
      return Error(location, path, "a string that is not empty", found());
    }
    if (HasRange(field)) {
      const v1::Range& range = field.options().GetExtension(v1::range);
      const bool above_min = field.options().GetExtension(v1::above_min);
      const double number = NumberOf(message, field, index);
      // Written so that NaN fails.
      if (!(number <= range.max() && (above_min ? number > range.min() : number >= range.min()))) {
        return Error(location, path, TextOf(range, above_min), found());
      }
    }
    // Also without a range: no setting means infinity or NaN, and every comparison with NaN is false later.
    if (IsReal(field) && !std::isfinite(NumberOf(message, field, index))) {
      return Error(location, path, "a finite number", found());
    }
    // A switch whose number is 0 would silently do nothing.
    if (field.options().HasExtension(v1::needs) && reflection.GetBool(message, &field)) {
      const FieldDescriptor& needed =
          *message.GetDescriptor()->FindFieldByName(field.options().GetExtension(v1::needs));
      if (!(NumberOf(message, needed, -1) > 0)) {
        return Error(location, path, absl::StrCat("a ", needed.name(), " above 0 with it"),
                     ValueText(message, needed, -1));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Error(TextFormat::ParseLocation location, absl::string_view path, absl::string_view expected,
                     absl::string_view found) const {
    const std::string where =
        root_ == nullptr ? "" : absl::StrCat(name_, ":", location.line + 1, ":", location.column + 1, ": ");
    return absl::InvalidArgumentError(absl::StrCat(where, path, ": expected ", expected, ", found ", found));
  }

  const std::string name_;
  const TextFormat::ParseInfoTree* const root_;  // Not owned; null without locations.
};

}  // namespace

std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::string Shortened(const std::string& text) {
  return text.size() <= kMaxValueText ? text : absl::StrCat(text.substr(0, kMaxValueText), "…");
}

bool HasRange(const FieldDescriptor& field) { return field.options().HasExtension(v1::range); }

std::string RangeText(const FieldDescriptor& field) {
  return TextOf(field.options().GetExtension(v1::range), field.options().GetExtension(v1::above_min));
}

std::string OneofNames(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    names.push_back(oneof.field(i)->name());
  }
  return Alternatives(names);
}

std::string EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (!IsUnspecified(*type.value(i))) {
      names.push_back(type.value(i)->name());
    }
  }
  return Alternatives(names);
}

bool IsUnspecified(const EnumValueDescriptor& value) { return absl::EndsWith(value.name(), "_UNSPECIFIED"); }

absl::Status ValidateMessage(const Message& message) { return Validator("", nullptr).Validate(message); }

absl::Status ValidateParsedMessage(const Message& message, const TextFormat::ParseInfoTree& locations,
                                   absl::string_view name) {
  return Validator(name, &locations).Validate(message);
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

std::string FieldText(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) {
    return ValueText(message, field, -1);
  }
  std::string text = "[";
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ValueText(message, field, i));
  }
  return absl::StrCat(text, "]");
}

std::string FirstDifferenceWithin(const Message& ours, const Message& theirs, const std::string& prefix,
                                  const DifferenceNames& names) {
  const Descriptor& type = *ours.GetDescriptor();
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < type.field_count(); ++i) {
    fields.push_back(type.field(i));
  }
  // By number, the order of the bytes: by it both parties report the same first difference.
  std::sort(fields.begin(), fields.end(),
            [](const FieldDescriptor* a, const FieldDescriptor* b) { return a->number() < b->number(); });
  for (const FieldDescriptor* field : fields) {
    // As people write it: "audit.layers".
    const std::string path = prefix + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      std::string nested = FirstDifferenceWithin(ours.GetReflection()->GetMessage(ours, field),
                                                 theirs.GetReflection()->GetMessage(theirs, field), path + ".", names);
      if (!nested.empty()) {
        return nested;
      }
      continue;
    }
    const std::string our_text = FieldText(ours, *field);
    const std::string their_text = FieldText(theirs, *field);
    if (our_text != their_text) {
      return absl::StrCat(path, ": ", names.ours, " ", Shortened(our_text), ", ", names.theirs, " ",
                          Shortened(their_text));
    }
  }
  // A later version may send fields that this one cannot name.
  const int our_unknown = ours.GetReflection()->GetUnknownFields(ours).field_count();
  const int their_unknown = theirs.GetReflection()->GetUnknownFields(theirs).field_count();
  if (our_unknown + their_unknown > 0) {
    const std::string owner = prefix.empty() ? type.name() : prefix.substr(0, prefix.size() - 1);
    return absl::StrCat(owner, ": ", names.ours, " has ", our_unknown, " unknown fields, ", names.theirs, " ",
                        their_unknown);
  }
  return "";
}

}  // namespace

void SetDefaults(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_repeated()) {
      for (int j = 0; is_message && j < reflection.FieldSize(message, &field); ++j) {
        SetDefaults(*reflection.MutableRepeatedMessage(&message, &field, j));
      }
      continue;
    }
    if (!reflection.HasField(message, &field)) {
      if (field.real_containing_oneof() != nullptr) {
        continue;  // A oneof has no default member.
      }
      // An unset field reads as its default: write out what it reads, so that both parties hash the same bytes whether
      // a file states a default or not.
      if (!is_message) {
        CheckInvariant(TextFormat::ParseFieldValueFromString(ValueText(message, field, -1), &field, &message),
                       "SetDefaults: a value reads back as it was written");
      }
    }
    if (is_message) {
      SetDefaults(*reflection.MutableMessage(&message, &field));
    }
  }
}

std::string FirstDifference(const Message& ours, const Message& theirs, const DifferenceNames& names) {
  return FirstDifferenceWithin(ours, theirs, "", names);
}

}  // namespace splitveil
