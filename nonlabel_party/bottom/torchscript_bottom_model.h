// The bottom model that is a TorchScript file, behind embeddings of ours or without.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_TORCHSCRIPT_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_TORCHSCRIPT_BOTTOM_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// `options.spec` has a torchscript_path, to be opened as it is. Its layers are the module's named submodules
// (TorchScriptModule::layers) and "cut". Parameters: those of the module and its buffers by their names in its state
// dict; with an embedding, "embedding" and those of the module as "module.NAME". Errors: see BottomModel::Create and
// TorchScriptModule::Create.
absl::StatusOr<std::unique_ptr<BottomModel>> CreateTorchScriptBottomModel(const BottomModelOptions& options);

// See BottomModel::Check.
absl::StatusOr<std::vector<std::string>> CheckTorchScriptBottomModel(const BottomModelOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_TORCHSCRIPT_BOTTOM_MODEL_H_
