// Configuration messages with every field set, and how two of them differ.
#ifndef SPLITVEIL_COMMON_CONFIG_CANONICAL_MESSAGE_H_
#define SPLITVEIL_COMMON_CONFIG_CANONICAL_MESSAGE_H_

#include <string>

#include "google/protobuf/message.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_CONFIG_CANONICAL_MESSAGE_H_
