// What a TorchScript half has learnt: the module's numbers, and those of the embedding of ours before it.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_STATE_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/model/input_layer.h"
#include "common/model/parameters.h"
#include "common/model/torchscript_module.h"

namespace splitveil {

// A view of a half, which must outlive it. Errors of the setters: InvalidArgument if names or sizes differ; nothing
// is changed. Not thread-safe.
class TorchScriptState {
 public:
  // `embedding`: null if the module gets its inputs as they are; its names start with `prefix`.
  TorchScriptState(InputLayer* embedding, std::string prefix, TorchScriptModule* module);

  // "`prefix`embedding", and the module's parameters and buffers by their names in the state dict, as
  // predictions use them.
  NamedParameters Parameters() const;
  absl::Status SetParameters(const NamedParameters& parameters);
  // The parameters as trained, and beside them the optimiser's moments, averages and steps (CopyTrainingState), and
  // "draws": what the module draws next (Dropout), so that a batch that is computed again is computed alike.
  NamedParameters TrainingState() const;
  absl::Status SetTrainingState(const NamedParameters& state);

 private:
  // The embedding's, and `module`, which are copies of the module's.
  std::vector<ParameterView> Views(TorchScriptModule::Part part, NamedParameters& module) const;

  InputLayer* embedding_;
  std::string prefix_;
  TorchScriptModule* module_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_STATE_H_
