// Parameters by name: how a model half is copied out (checkpoints, tests) and put back.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETERS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace splitveil {

// Copies: "first.weight" ([units, inputs], row-major), "first.bias" ([units]), "embedding" ([rows, dimension]), ...
using NamedParameters = std::vector<std::pair<std::string, std::vector<float>>>;

// One parameter where it lives. Not owned; the model must outlive this.
struct ParameterView {
  std::string name;
  absl::Span<float> values;
};

NamedParameters CopyParameters(absl::Span<const ParameterView> parameters);

// Overwrites every one of `parameters` with the values of its name, in any order. Errors: InvalidArgument where a name
// is missing, repeated or unknown or a size differs; then nothing is changed.
absl::Status AssignParameters(const NamedParameters& values, absl::Span<const ParameterView> parameters);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
