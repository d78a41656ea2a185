// Messages by their schema: whether one keeps the options of proto/splitveil/v1/options.proto, its defaults, and how
// two differ.
#ifndef SPLITVEIL_COMMON_CONFIG_MESSAGE_VALIDATOR_H_
#define SPLITVEIL_COMMON_CONFIG_MESSAGE_VALIDATOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace splitveil {

// Checks required fields, required oneofs, ranges, that numbers are finite, what a flag needs and enum values of
// `message` and of every message set in it, and that it carries no field the schema does not know. Safe on a message a
// hostile peer sent. Errors: InvalidArgument as one line, "FIELD: expected …, found …", for the first field that fails,
// in declaration order. Thread-safe.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// As ValidateMessage, for a message parsed from text whose locations are in `locations`: each error starts with
// "NAME:LINE:COLUMN: ". A missing field is reported where the message lacking it starts.
absl::Status ValidateParsedMessage(const google::protobuf::Message& message,
                                   const google::protobuf::TextFormat::ParseInfoTree& locations,
                                   absl::string_view name);

// Value of `field` (its `index`-th, -1 where singular) as text format writes it: one line, ASCII.
std::string ValueText(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                      int index);

// `text` cut to the length that an error message shows.
std::string Shortened(const std::string& text);

// Whether the schema bounds the field, and the bounds: "at least 1 and at most 64".
bool HasRange(const google::protobuf::FieldDescriptor& field);
std::string RangeText(const google::protobuf::FieldDescriptor& field);

// "A, B or C" of the members' names.
std::string OneofNames(const google::protobuf::OneofDescriptor& oneof);
// The same of the values that may be configured: all but those named …_UNSPECIFIED.
std::string EnumNames(const google::protobuf::EnumDescriptor& type);
bool IsUnspecified(const google::protobuf::EnumValueDescriptor& value);

// Sets every unset field of `message` to its default, submessages included. A oneof without a member stays so.
void SetDefaults(google::protobuf::Message& message);

// What the two sides of a difference are called in its text.
struct DifferenceNames {
  const char* ours = "ours";
  const char* theirs = "theirs";
};

// Path of the first field (in field-number order) in which two messages of one type with all defaults set differ, with
// both values, for example "batch_size: ours 1024, theirs 512"; empty where equal. One line; long values are shortened.
std::string FirstDifference(const google::protobuf::Message& ours, const google::protobuf::Message& theirs,
                            const DifferenceNames& names = {});

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_MESSAGE_VALIDATOR_H_
