// Parameters by name: how a model half is copied out (checkpoints, tests) and put back.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

// Copies, without gaps: "first.weight" ([units, inputs], row-major), "first.bias" ([units]), "embedding" ([rows,
// dimension]), ...
using NamedParameters = std::vector<std::pair<std::string, std::vector<float>>>;

// Borrowed numbers [rows, width], of which each row lies `stride` >= width numbers behind the one before.
struct StridedRows {
  // One row.
  StridedRows(absl::Span<float> row)  // NOLINT(google-explicit-constructor)
      : data(row.data()), rows(1), width(static_cast<int64_t>(row.size())), stride(width) {}
  StridedRows(float* own_data, int64_t own_rows, int64_t own_width, int64_t own_stride)
      : data(own_data), rows(own_rows), width(own_width), stride(own_stride) {}

  int64_t size() const { return rows * width; }
  absl::Span<float> row(int64_t r) const { return {data + r * stride, static_cast<size_t>(width)}; }

  float* data;
  int64_t rows;
  int64_t width;
  int64_t stride;
};

// One parameter where it lives. Not owned; the model must outlive this, and must not be trained meanwhile.
struct ParameterView {
  std::string name;
  StridedRows values;  // To a table, of more than one row, rows may be added; else the size is fixed.
};

// The parts of a model, one behind the other.
std::vector<ParameterView> Joined(std::vector<std::vector<ParameterView>> parts);

// Copies that have still to be put where they belong, as views.
std::vector<ParameterView> ViewsOf(NamedParameters& copies);

// Which of a parameter's values: those that training changes, or those that predictions are made with, their average
// if there is one (v1::Optimizer.average_decay) and else the same.
enum class ParameterUse { kTraining, kPrediction };

// "NAME.moment1", "NAME.moment2": what an optimiser remembers of parameter NAME, in the layout of its values.
std::string MomentName(const std::string& parameter, int moment);
// "NAME.average": its average over the steps, in the same layout.
std::string AverageName(const std::string& parameter);

// Copies of all values, without the gaps between rows. Thread-safe as long as nobody trains.
NamedParameters CopyParameters(absl::Span<const ParameterView> parameters);

// Overwrites every one of `parameters` with the values of its name, in any order. Errors: InvalidArgument if a name
// is missing, repeated or unknown or a size differs; then nothing is changed.
absl::Status AssignParameters(const NamedParameters& values, absl::Span<const ParameterView> parameters);

// What training resumes from: copies of `state` (parameters, moments and averages) and "steps", the optimiser's steps
// so far as two numbers that a float holds exactly, [steps mod 2^24, steps div 2^24].
NamedParameters CopyTrainingState(absl::Span<const ParameterView> state, int64_t steps);

// Puts it back and returns the steps. A table may have fewer rows in `values`: those further down keep what they have.
// Errors: see AssignParameters; InvalidArgument for "steps" that are no count or tables of parts of rows.
absl::StatusOr<int64_t> AssignTrainingState(const NamedParameters& values, absl::Span<const ParameterView> state);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_PARAMETERS_H_
