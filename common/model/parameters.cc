#include "common/model/parameters.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace splitveil {

NamedParameters CopyParameters(absl::Span<const ParameterView> parameters) {
  NamedParameters copies;
  copies.reserve(parameters.size());
  for (const ParameterView& parameter : parameters) {
    copies.emplace_back(parameter.name, std::vector<float>(parameter.values.begin(), parameter.values.end()));
  }
  return copies;
}

absl::Status AssignParameters(const NamedParameters& values, absl::Span<const ParameterView> parameters) {
  absl::flat_hash_map<std::string, const std::vector<float>*> by_name;
  for (const auto& [name, numbers] : values) {
    if (!by_name.emplace(name, &numbers).second) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", name, ": expected once, found twice"));
    }
  }
  if (by_name.size() != parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameters: expected ", parameters.size(), " names, found ", by_name.size()));
  }
  for (const ParameterView& parameter : parameters) {
    const auto found = by_name.find(parameter.name);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, ": expected, not found"));
    }
    if (found->second->size() != parameter.values.size()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, ": expected ",
                                                     parameter.values.size(), " values, found ",
                                                     found->second->size()));
    }
  }
  for (const ParameterView& parameter : parameters) {
    const std::vector<float>& numbers = *by_name.at(parameter.name);
    std::copy(numbers.begin(), numbers.end(), parameter.values.begin());
  }
  return absl::OkStatus();
}

}  // namespace splitveil
