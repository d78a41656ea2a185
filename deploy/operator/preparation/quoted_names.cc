#include "deploy/operator/preparation/quoted_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace splitveil {

std::string QuotedNames(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\"");
}

}  // namespace splitveil
