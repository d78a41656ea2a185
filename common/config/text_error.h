// Finds out what is wrong with a text that google::protobuf::TextFormat refuses.
//
// TextFormat reports an error behind the offending token and without the field's path; a person editing a configuration
// needs the token itself, the path, and what would have been accepted.
#ifndef SPLITVEIL_COMMON_CONFIG_TEXT_ERROR_H_
#define SPLITVEIL_COMMON_CONFIG_TEXT_ERROR_H_

#include <optional>
#include <string>

#include "google/protobuf/descriptor.h"

namespace splitveil {

struct TextError {
  int line = 0;    // From 0.
  int column = 0;  // From 0; a tab counts to the next multiple of 8.
  std::string field;
  std::string expected;
  std::string found;
  std::string renamed;  // Instead of `expected` and `found`, for a name of earlier versions: what it was renamed to.
};

// The first token of `text` that does not fit `schema`: unknown or renamed field, wrong type, number too large, unknown
// or renamed enum value, repeated singular field, second member of a oneof, malformed text. nullopt where nothing of
// the kind is found.
std::optional<TextError> FindTextError(const std::string& text, const google::protobuf::Descriptor& schema);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_TEXT_ERROR_H_
