#include "common/model/torchscript_file.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <torch/csrc/jit/serialization/import.h>

#include "absl/strings/str_cat.h"

#include "common/model/torchscript_archive.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using torch::jit::Module;

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// A file holds tied parameters as tensors on the same memory. They become one tensor, which a copy of the module keeps
// one and an optimiser moves once.
absl::Status TieParameters(Module& module) {
  std::vector<at::Tensor> seen;
  for (Module owner : module.modules()) {
    const c10::ClassTypePtr type = owner.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      if (!type->is_parameter(slot) || !owner._ivalue()->getSlot(slot).isTensor()) {
        continue;
      }
      const at::Tensor parameter = owner._ivalue()->getSlot(slot).toTensor();
      const auto alias = std::find_if(seen.begin(), seen.end(),
                                      [&](const at::Tensor& earlier) { return earlier.is_alias_of(parameter); });
      if (alias == seen.end()) {
        seen.push_back(parameter);
      } else if (SameMemory(*alias, parameter)) {
        owner._ivalue()->setSlot(slot, *alias);
      } else {
        return absl::InvalidArgumentError(absl::StrCat("expected parameters each in memory of its own, found ",
                                                       type->getAttributeName(slot), " on part of another's"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckParameters(const Module& module) {
  for (const auto& parameter : module.named_parameters()) {
    if (parameter.value.scalar_type() != at::kFloat || !parameter.value.is_contiguous()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", parameter.name, ": expected contiguous float32, found ",
          c10::toString(parameter.value.scalar_type()), parameter.value.is_contiguous() ? "" : ", not contiguous"));
    }
  }
  return absl::OkStatus();
}

absl::Status NoTorchScript(const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected a TorchScript file, as torch.jit.save writes it, found something else: ", why));
}

absl::StatusOr<Module> Load(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError("expected a TorchScript file, found none of that name");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTorchScriptArchive(path));
  try {
    return torch::jit::load(path, at::Device(at::kCPU));
  } catch (const c10::Error& error) {
    return NoTorchScript(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return NoTorchScript(error.what());
  }
}

}  // namespace

absl::StatusOr<Module> LoadTorchScript(const std::string& field, const std::string& path) {
  absl::StatusOr<Module> module = Load(path);
  absl::Status status = module.status();
  if (status.ok() && !module->find_method("forward").has_value()) {
    status = absl::InvalidArgumentError("expected a method forward, found none");
  }
  if (status.ok()) {
    status = CheckParameters(*module);
  }
  if (status.ok()) {
    status = TieParameters(*module);
  }
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(field, ": ", path, ": ", status.message()));
  }
  return module;
}

int CountRequiredArguments(const Module& module) {
  const std::vector<c10::Argument>& arguments = module.get_method("forward").function().getSchema().arguments();
  return static_cast<int>(std::count_if(arguments.begin() + 1, arguments.end(), [](const c10::Argument& argument) {
    return !argument.default_value().has_value();
  }));
}

absl::Status CheckArguments(const Module& module, int arguments) {
  const std::vector<c10::Argument>& found = module.get_method("forward").function().getSchema().arguments();
  const int most = static_cast<int>(found.size()) - 1;  // Without the module itself.
  if (arguments < CountRequiredArguments(module) || arguments > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a forward of ", arguments, " tensors, found one of ", most, " arguments"));
  }
  for (int i = 1; i <= arguments; ++i) {
    if (!c10::TensorType::get()->isSubtypeOf(*found[i].type())) {
      return absl::InvalidArgumentError(absl::StrCat("expected a tensor as forward's argument ", found[i].name(),
                                                     ", found ", found[i].type()->repr_str()));
    }
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> StateOf(const Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& parameter : module.named_parameters()) {
    state.emplace_back(parameter.name, parameter.value);
  }
  for (const auto& buffer : module.named_buffers()) {
    state.emplace_back(buffer.name, buffer.value);
  }
  return state;
}

std::vector<at::Tensor> TrainedParameters(const Module& module) {
  std::vector<at::Tensor> trained;
  for (const at::Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad() && std::none_of(trained.begin(), trained.end(), [&](const at::Tensor& earlier) {
          return earlier.is_same(parameter);
        })) {
      trained.push_back(parameter);
    }
  }
  return trained;
}

Module CopyModule(const Module& module, bool train) {
  const at::NoGradGuard no_grad;  // Or the copies would be results of an operation instead of leaves.
  Module copy = module.deepcopy();
  copy.train(train);
  const auto originals = module.parameters();
  const auto copies = copy.parameters();
  auto original = originals.begin();
  for (at::Tensor parameter : copies) {
    parameter.requires_grad_((*original++).requires_grad());
  }
  return copy;
}

void AssignAttributes(const Module& from, Module& to) {
  const auto sources = from.modules();
  const auto owners = to.modules();
  auto source = sources.begin();
  for (const Module& owner : owners) {
    const c10::ClassTypePtr type = owner.type();
    const Module from_owner = *source++;
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      if (type->is_parameter(slot) || type->getAttribute(slot)->is_module()) {
        continue;
      }
      const c10::IValue value = from_owner._ivalue()->getSlot(slot);
      // Detached: a buffer that was computed from parameters would hold on to the pass.
      owner._ivalue()->setSlot(slot, value.isTensor() ? c10::IValue(value.toTensor().detach()) : value);
    }
  }
}

}  // namespace splitveil
