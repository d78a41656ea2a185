// The top model that is a TorchScript file.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_TORCHSCRIPT_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_TOP_TORCHSCRIPT_TOP_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"

#include "label_party/top/top_model.h"

namespace splitveil {

// `options.spec` has a torchscript_path, to be opened as it is. Its forward gets the cut activations and, with
// own_features, those embedded; without, as many as it has arguments for of the activations, the party's numeric
// columns and its categories. Parameters: those of the module and its buffers by their names in its state dict; with
// own_features that have an embedding, "own.embedding" and those of the module as "module.NAME". Errors: as
// TopModel::Create and TorchScriptModule::Create.
absl::StatusOr<std::unique_ptr<TopModel>> CreateTorchScriptTopModel(const TopModelOptions& options);

// As TopModel::Check.
absl::Status CheckTorchScriptTopModel(const TopModelOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_TORCHSCRIPT_TOP_MODEL_H_
