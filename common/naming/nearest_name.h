// "Did you mean": the name that a mistyped word was most likely meant to be.
#ifndef SPLITVEIL_COMMON_NAMING_NEAREST_NAME_H_
#define SPLITVEIL_COMMON_NAMING_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace splitveil {

// The first of `names` that takes the fewest edits to reach from `word`; "" where none is close: a third of the word
// at most, and two letters where that is less. An edit inserts, deletes or replaces a character or swaps two neighbours
// (optimal string alignment distance). A hyphen counts as an underscore.
std::string NearestName(absl::string_view word, const std::vector<std::string>& names);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_NAMING_NEAREST_NAME_H_
