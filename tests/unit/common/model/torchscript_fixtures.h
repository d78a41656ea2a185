// TorchScript modules made on the spot, without Python.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_MODEL_TORCHSCRIPT_FIXTURES_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_MODEL_TORCHSCRIPT_FIXTURES_H_

#include <string>
#include <torch/script.h>
#include <torch/torch.h>
#include <utility>
#include <vector>

namespace splitveil {

// A module of class `name` with the source of its methods.
inline torch::jit::Module MakeScript(const std::string& name,
                                     const std::vector<std::pair<std::string, torch::Tensor>>& parameters,
                                     const std::vector<std::pair<std::string, torch::jit::Module>>& children,
                                     const std::string& source) {
  torch::jit::Module module("__torch__." + name);
  module.register_attribute("training", c10::BoolType::get(), true);
  for (const auto& [parameter, value] : parameters) {
    module.register_parameter(parameter, value.detach().clone().set_requires_grad(true), /*is_buffer=*/false);
  }
  for (const auto& [child, value] : children) {
    module.register_module(child, value);
  }
  if (!source.empty()) {
    module.define(source + "\n");
  }
  return module;
}

// x W^T + b.
inline torch::jit::Module MakeLinearScript(const std::string& name, const torch::Tensor& weight,
                                           const torch::Tensor& bias) {
  return MakeScript(name, {{"weight", weight}, {"bias", bias}}, {},
                    "def forward(self, x): return torch.linear(x, self.weight, self.bias)");
}

// Works in place, as nn.ReLU(inplace=True).
inline torch::jit::Module MakeReluScript(const std::string& name) {
  return MakeScript(name, {}, {}, "def forward(self, x): return x.relu_()");
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_MODEL_TORCHSCRIPT_FIXTURES_H_
