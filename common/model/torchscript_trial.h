// What can be found out about a TorchScript module by running it, before a run begins. Shows LibTorch: for the sources
// of common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_TRIAL_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_TRIAL_H_

#include <string>
#include <torch/csrc/jit/api/module.h>
#include <vector>

#include "absl/status/statusor.h"

#include "common/model/torchscript_run.h"

namespace splitveil {

// Runs copies of `module` on made-up batches of 2 and 3 rows, in train mode and back and in eval mode. Returns the
// layers whose gradients can be told: the names TorchScriptModule::layers has. Errors: InvalidArgument with expected
// and found where forward fails or gives another shape, nothing in it can be trained, or in eval mode a row's output
// depends on other rows or on chance (a module traced in train mode).
absl::StatusOr<std::vector<std::string>> TryTorchScript(const TorchScriptOptions& options,
                                                        const LayeredForward& forward,
                                                        const torch::jit::Module& module);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_TRIAL_H_
