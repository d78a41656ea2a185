// How a top model's outputs move with its activations.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_OUTPUT_DIRECTIONS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_OUTPUT_DIRECTIONS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// d output_k / dz of each of `rows` rows, [rows, outputs * cut_width], output by output. `input_gradient`: of a
// gradient at the outputs, [rows, outputs], that at the activations, [rows, cut_width]. Errors: its own.
absl::StatusOr<Matrix> DirectionsOfOutputs(int64_t rows, int64_t outputs,
                                           absl::FunctionRef<absl::StatusOr<Matrix>(ConstMatrixView)> input_gradient);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_OUTPUT_DIRECTIONS_H_
