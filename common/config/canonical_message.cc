#include "common/config/canonical_message.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"

#include "common/config/message_validator.h"
#include "common/crypto/invariant.h"

namespace splitveil {
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
