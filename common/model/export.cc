#include "common/model/export.h"

#include <ATen/ATen.h>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/model/torch_boundary.h"
#include "common/model/torchscript_file.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

using torch::jit::Module;

Module NewModule(const std::string& class_name) {
  Module module("__torch__." + class_name);
  module.register_attribute("training", c10::BoolType::get(), false);  // Python's modules have one.
  return module;
}

// Modules nested as the dots in the parameters' names say.
class ModuleTree {
 public:
  explicit ModuleTree(Module root) { modules_.emplace("", std::move(root)); }

  Module root() const { return modules_.at(""); }

  void Define(const ScriptedLayer& layer) { Find(layer.name).define(layer.source); }

  void AddParameter(const ScriptedParameter& parameter) {
    const auto [owner, name] = Split(parameter.name);
    const auto& [data, rows, width, stride] = parameter.values;
    // Copied without gaps: a file would hold all of a tensor's memory, and a table keeps moments between its rows,
    // which are not part of the model.
    const at::Tensor values = at::from_blob(data, {rows, width}, {stride, 1}, at::kFloat).contiguous();
    Find(owner).register_parameter(name, values.view(parameter.shape).requires_grad_(), /*is_buffer=*/false);
  }

 private:
  static std::pair<std::string, std::string> Split(const std::string& path) {
    const size_t dot = path.rfind('.');
    return dot == std::string::npos ? std::make_pair(std::string(), path)
                                    : std::make_pair(path.substr(0, dot), path.substr(dot + 1));
  }

  // The module at `path`, made with those above it if there is none.
  Module Find(const std::string& path) {
    const auto found = modules_.find(path);
    if (found != modules_.end()) {
      return found->second;
    }
    const auto [owner, name] = Split(path);
    const Module module = NewModule(absl::StrCat("Layer", modules_.size()));
    Find(owner).register_module(name, module);
    modules_.emplace(path, module);
    return module;
  }

  std::map<std::string, Module> modules_;
};

absl::StatusOr<std::unique_ptr<PendingFile>> Create(const ExportTarget& target, const char* suffix) {
  return PendingFile::Create((std::filesystem::path(target.folder) / absl::StrCat(target.party, suffix)).string());
}

absl::Status WriteModule(const Module& module, PendingFile& file) {
  absl::Status status;
  torch::jit::ExportModule(module, [&](const void* bytes, size_t size) -> size_t {
    // If it hears of a failed write, LibTorch's writer throws, and throws again when it is destroyed: the process would
    // abort.
    if (status.ok()) {
      status = file.Append({static_cast<const char*>(bytes), size});
    }
    return size;
  });
  return status;
}

absl::Status WriteStateDict(const Module& module, PendingFile& file) {
  c10::Dict<std::string, at::Tensor> state;
  for (const auto& [name, tensor] : StateOf(module)) {
    state.insert(name, tensor.detach());
  }
  const std::vector<char> bytes = torch::jit::pickle_save(state);
  return file.Append({bytes.data(), bytes.size()});
}

absl::Status Write(const Module& module, const ExportTarget& target) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> module_file, Create(target, ".pt"));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> state_file, Create(target, ".state_dict.pt"));
  // Both files or neither: a module beside the state of a different run would mislead.
  absl::Status status = WriteModule(module, *module_file);
  if (status.ok()) {
    status = WriteStateDict(module, *state_file);
  }
  return status.ok() ? PendingFile::Publish({module_file.get(), state_file.get()}) : status;
}

absl::Status WriteScript(const HalfScript& script, const std::string& result, const std::optional<Module>& inner,
                         const ExportTarget& target) {
  ModuleTree tree(NewModule(target.party));
  for (const ScriptedParameter& parameter : script.parameters()) {
    tree.AddParameter(parameter);
  }
  for (const ScriptedLayer& layer : script.layers()) {
    tree.Define(layer);
  }
  Module root = tree.root();
  if (inner.has_value()) {
    root.register_module("module", *inner);
  }
  root.define(script.Source(result));
  return Write(root, target);
}

}  // namespace

absl::Status PrepareExport(const ExportTarget& target) {
  if (const std::error_code error = MakeFolders(target.folder); error) {
    return absl::InvalidArgumentError(
        absl::StrCat("export_dir: ", target.folder, ": expected a folder, or a place for one: ", error.message()));
  }
  // A trial file that is removed again: it shows before the training whether the folder can be written.
  const absl::Status status = Create(target, ".pt").status();
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat("export_dir: ", status.message()));
}

absl::Status ExportHalf(const HalfScript& script, const std::string& result, const ExportTarget& target) {
  return CatchTorchErrors<absl::Status>("export", [&] { return WriteScript(script, result, std::nullopt, target); });
}

absl::Status ExportModule(const TorchScriptModule& module, const ExportTarget& target) {
  return CatchTorchErrors<absl::Status>("export", [&] { return Write(module.ScriptToPredict(), target); });
}

absl::Status ExportModuleWithin(const HalfScript& script, const std::string& result, const TorchScriptModule& module,
                                const ExportTarget& target) {
  return CatchTorchErrors<absl::Status>("export",
                                        [&] { return WriteScript(script, result, module.ScriptToPredict(), target); });
}

}  // namespace splitveil
