// A TorchScript file on its way to a module that can be trained. Shows LibTorch: for the sources of common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_FILE_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_FILE_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <string>
#include <torch/csrc/jit/api/module.h>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace splitveil {

// Loads `path` to the CPU. Parameters that were one in Python (tied weights) are one again. Errors: InvalidArgument
// with field, file, expected and found if there is no such file, no TorchScript or no forward in it, damage in it,
// or a parameter is not float32 or overlaps another.
absl::StatusOr<torch::jit::Module> LoadTorchScript(const std::string& field, const std::string& path);

// Arguments of forward without a default value.
int CountRequiredArguments(const torch::jit::Module& module);

// InvalidArgument with expected and found if forward cannot be called with so many tensors.
absl::Status CheckArguments(const torch::jit::Module& module, int arguments);

// Parameters and buffers under their names in the state dict; tied ones under each.
std::vector<std::pair<std::string, at::Tensor>> StateOf(const torch::jit::Module& module);

// The parameters to train, each once.
std::vector<at::Tensor> TrainedParameters(const torch::jit::Module& module);

// A copy with parameters, buffers and attributes of its own, in train or eval mode. The parameters are leaves.
torch::jit::Module CopyModule(const torch::jit::Module& module, bool train);

// Gives `to` the buffers and attributes of `from`, a copy of it: everything but parameters.
void AssignAttributes(const torch::jit::Module& from, torch::jit::Module& to);

// A module for runs that must leave it as it is, and whether one did not. Not thread-safe.
class UnchangedModule {
 public:
  explicit UnchangedModule(const torch::jit::Module& module);

  const torch::jit::Module& module() const { return module_; }
  // Whether parameters, buffers and attributes are as at construction: tensors by the number of writes that LibTorch
  // counts (it counts none through `.data`), everything else by its value. False if an attribute holds tensors in a
  // list or an object, whose writes are not looked for.
  bool IsAsMade() const;

 private:
  struct Attribute {
    c10::IValue value;
    int64_t writes = 0;  // Of a tensor.
  };
  struct Attributes {
    std::vector<Attribute> all;  // Of the module and its submodules.
    bool complete = true;        // None of them holds tensors elsewhere.
  };
  static Attributes AttributesOf(const torch::jit::Module& module);

  torch::jit::Module module_;
  Attributes as_made_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_FILE_H_
