#include "common/config/canonical_message.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

#include "common/config/message_validator.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void SetToDefault(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, field.default_value_uint64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, field.default_value_float());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(&message, &field, field.default_value_enum());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, field.default_value_string());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.MutableMessage(&message, &field);
  }
}

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
  std::sort(fields.begin(), fields.end(),
            [](const FieldDescriptor* a, const FieldDescriptor* b) { return a->number() < b->number(); });
  for (const FieldDescriptor* field : fields) {
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
      SetToDefault(message, field);
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
