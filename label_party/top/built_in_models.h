// The top models that there are, and what they share. TopModel::Create chooses.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_BUILT_IN_MODELS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_BUILT_IN_MODELS_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"
#include "label_party/top/top_model.h"

namespace splitveil {

// `options.spec` is a top half (TopHalf). Errors: see TopModel::Create.
absl::StatusOr<std::unique_ptr<TopModel>> CreateLayeredTopModel(const TopModelOptions& options);

// `options.spec` has a torchscript_path, to be opened as it is. Its forward gets the cut activations and, with
// own_features, those embedded; without, as many as it has arguments for of the activations, the party's numeric
// columns and its categories. Parameters: those of the module and its buffers by their names in its state dict; with
// own_features that have an embedding, "own.embedding" and those of the module as "module.NAME". Errors: as
// TopModel::Create and TorchScriptModule::Create.
absl::StatusOr<std::unique_ptr<TopModel>> CreateTorchScriptTopModel(const TopModelOptions& options);

// See TopModel::Check.
absl::Status CheckTorchScriptTopModel(const TopModelOptions& options);

// d output_k / dz of each of `rows` rows, [rows, outputs * cut_width], output by output. `input_gradient`: of a
// gradient at the outputs, [rows, outputs], that at the activations, [rows, cut_width]. Errors: its own.
absl::StatusOr<Matrix> DirectionsOfOutputs(int64_t rows, int64_t outputs,
                                           absl::FunctionRef<absl::StatusOr<Matrix>(ConstMatrixView)> input_gradient);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_BUILT_IN_MODELS_H_
