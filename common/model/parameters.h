// Parameters by name: how a model half is copied out (checkpoints, tests) and put back.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

// Copies: "first.weight" ([units, inputs], row-major), "first.bias" ([units]), "embedding" ([rows, dimension]), ...
using NamedParameters = std::vector<std::pair<std::string, std::vector<float>>>;

// One parameter where it lives. Not owned; the model must outlive this, and must not be trained meanwhile.
struct ParameterView {
  std::string name;
  absl::Span<float> values;
  int64_t row_width = 0;  // Of a table to which rows may be added; 0: its size is fixed.
};

// The parts of a model, one behind the other.
std::vector<ParameterView> Joined(std::vector<std::vector<ParameterView>> parts);

// Copies that have still to be put where they belong, as views.
std::vector<ParameterView> ViewsOf(NamedParameters& copies);

// "NAME.moment1", "NAME.moment2": what an optimiser remembers of parameter NAME, in the layout of its values.
std::string MomentName(const std::string& parameter, int moment);

NamedParameters CopyParameters(absl::Span<const ParameterView> parameters);

// Overwrites every one of `parameters` with the values of its name, in any order. Errors: InvalidArgument where a name
// is missing, repeated or unknown or a size differs; then nothing is changed.
absl::Status AssignParameters(const NamedParameters& values, absl::Span<const ParameterView> parameters);

// What training goes on from: copies of `state` (parameters and moments) and "steps", the optimiser's steps so far as
// two numbers that a float holds exactly, [steps mod 2^24, steps div 2^24].
NamedParameters CopyTrainingState(absl::Span<const ParameterView> state, int64_t steps);

// Puts it back and returns the steps. A table may have fewer rows in `values`: those further down keep what they have.
// Errors: as AssignParameters; InvalidArgument for "steps" that are no count or tables of parts of rows.
absl::StatusOr<int64_t> AssignTrainingState(const NamedParameters& values, absl::Span<const ParameterView> state);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
