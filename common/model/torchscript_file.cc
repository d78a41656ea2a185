#include "common/model/torchscript_file.h"

#include <zip.h>

#include <ATen/ATen.h>
#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <torch/csrc/jit/serialization/import.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {

namespace {

// Reads the ZIP archive at `path` once from end to end. It finds damage, not intent: a checksum is no signature. Error:
// InvalidArgument if it is not such an archive, or its content does not match its CRC-32.
absl::Status CheckTorchScriptArchive(const std::string& path);

constexpr int kReadBytes = 1 << 18;

absl::Status Damaged(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected a TorchScript file, found a damaged one (", why, "): copy or export it again"));
}

std::string OpenError(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// For a folder LibTorch reads no bytes, and takes uninitialised memory for the tensor.
bool IsFolder(zip_t* archive, const zip_stat_t& entry) {
  constexpr zip_uint32_t kFolderOfDos = 0x10;
  zip_uint8_t system = 0;
  zip_uint32_t attributes = 0;
  zip_file_get_external_attributes(archive, entry.index, 0, &system, &attributes);
  return (attributes & kFolderOfDos) != 0 || absl::EndsWith(entry.name, "/");
}

// libzip compares the checksum after the last byte; LibTorch compares none and believes the stated length.
absl::Status ReadEntry(zip_t* archive, zip_uint64_t index, std::array<char, kReadBytes>& buffer) {
  zip_stat_t stat;
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> entry(zip_fopen_index(archive, index, 0), zip_fclose);
  if (entry == nullptr || zip_stat_index(archive, index, 0, &stat) != 0) {
    return Damaged(zip_strerror(archive));
  }
  if (stat.size > 0 && IsFolder(archive, stat)) {
    return Damaged("a part is marked as a folder");
  }
  // Read to the end, as the checksum is compared with the last byte.
  zip_uint64_t length = 0;
  zip_int64_t read = 0;
  while ((read = zip_fread(entry.get(), buffer.data(), buffer.size())) > 0) {
    length += static_cast<zip_uint64_t>(read);
  }
  if (read < 0) {
    return Damaged(zip_file_strerror(entry.get()));
  }
  return length == stat.size ? absl::OkStatus()
                             : Damaged(absl::StrCat("a part has ", length, " bytes and says ", stat.size));
}

absl::Status CheckTorchScriptArchive(const std::string& path) {
  int code = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code),
                                                         zip_discard);
  if (archive == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a TorchScript file, found something else, or a damaged file: ", OpenError(code)));
  }
  const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t index = 0; index < entries; ++index) {
    if (absl::Status status = ReadEntry(archive.get(), static_cast<zip_uint64_t>(index), *buffer); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

using torch::jit::Module;

bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// A file holds tied parameters as tensors on the same memory. They become one tensor again, which stays one when the
// module is copied, and which the optimiser moves once.
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
    // The optimiser works on plain arrays of float32.
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
  // A folder or a device would give LibTorch's error, which names no field.
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError("expected a TorchScript file, but no file has this name");
  }
  // LibTorch does not compare checksums: damaged weights would train silently.
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
    status = absl::InvalidArgumentError("the module has no method forward");
  }
  if (status.ok()) {
    status = CheckParameters(*module);
  }
  if (status.ok()) {
    status = TieParameters(*module);
  }
  SPLITVEIL_RETURN_IF_ERROR(Within(absl::StrCat(field, ": ", path), status));
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
    // Tied parameters are one tensor: once, or the optimiser would move it twice.
    if (parameter.requires_grad() && std::none_of(trained.begin(), trained.end(), [&](const at::Tensor& earlier) {
          return earlier.is_same(parameter);
        })) {
      trained.push_back(parameter);
    }
  }
  return trained;
}

Module CopyModule(const Module& module, bool train) {
  const at::NoGradGuard no_grad;  // Else the copies would be results of an operation, not leaves.
  Module copy = module.deepcopy();
  // deepcopy forgets which parameters are frozen: restored below.
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

UnchangedModule::UnchangedModule(const Module& module) : module_(module), as_made_(AttributesOf(module_)) {}

bool UnchangedModule::IsAsMade() const {
  if (!as_made_.complete) {
    return false;
  }
  const Attributes now = AttributesOf(module_);
  return std::equal(now.all.begin(), now.all.end(), as_made_.all.begin(), as_made_.all.end(),
                    [](const Attribute& a, const Attribute& b) {
                      return a.writes == b.writes && a.value.isTensor() == b.value.isTensor() &&
                             (a.value.isTensor() ? a.value.is(b.value) : a.value == b.value);
                    });
}

UnchangedModule::Attributes UnchangedModule::AttributesOf(const Module& module) {
  Attributes attributes;
  for (const Module& owner : module.modules()) {
    const c10::ClassTypePtr type = owner.type();
    for (size_t slot = 0; slot < type->numAttributes(); ++slot) {
      const c10::IValue value = owner._ivalue()->getSlot(slot);
      if (type->getAttribute(slot)->is_module()) {
        continue;
      }
      if (value.isTensor()) {
        attributes.all.push_back({value, value.toTensor().defined() ? value.toTensor()._version() : 0});
        continue;
      }
      value.visit([&](const c10::IValue& part) {
        attributes.complete = attributes.complete && !part.isTensor() && !part.isObject();
        return false;  // Look inside, too.
      });
      // A copy: a list of numbers may be written in place.
      attributes.all.push_back({value.deepcopy()});
    }
  }
  return attributes;
}

}  // namespace splitveil
