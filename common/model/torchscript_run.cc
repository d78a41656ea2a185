#include "common/model/torchscript_run.h"

#include <mutex>
#include <string>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/model/torch_boundary.h"

namespace splitveil {
namespace {

// A copy, since a module may work on its arguments in place.
at::Tensor ToTensor(ConstMatrixView values, const TorchScriptNumbers& numbers) {
  std::vector<int64_t> sizes = {values.rows()};
  sizes.insert(sizes.end(), numbers.shape.begin(), numbers.shape.end());
  return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat)
      .requires_grad_(numbers.gradient && at::GradMode::is_enabled())
      .clone();
}

at::Tensor ToTensor(absl::Span<const int64_t> categories, int64_t columns) {
  const auto rows = static_cast<int64_t>(categories.size()) / columns;
  return at::from_blob(const_cast<int64_t*>(categories.data()), {rows, columns}, at::kLong).clone();
}

std::string Describe(const c10::IValue& output) {
  return output.isTensor() ? absl::StrCat(c10::toString(output.toTensor().scalar_type()), " [",
                                          absl::StrJoin(output.toTensor().sizes(), ", "), "]")
                           : output.tagKind();
}

}  // namespace

absl::StatusOr<TorchScriptRun> RunTorchScript(const TorchScriptOptions& options, const LayeredForward& forward,
                                              const torch::jit::Module& module, const TorchScriptInput& input) {
  TorchScriptRun run;
  std::vector<c10::IValue> arguments;
  for (size_t i = 0; i < input.numbers.size(); ++i) {
    run.inputs.push_back(ToTensor(input.numbers[i], options.numbers[i]));
    arguments.emplace_back(run.inputs.back());
  }
  if (options.category_columns > 0) {
    arguments.emplace_back(ToTensor(input.categories, options.category_columns));
  }
  const c10::IValue output = forward.Run(module, std::move(arguments), run.layers);
  const int64_t rows = input.numbers.front().rows();
  const std::vector<int64_t> expected = {rows, options.output_width};
  const bool fits = output.isTensor() && output.toTensor().scalar_type() == at::kFloat &&
                    (output.toTensor().sizes() == expected ||
                     (options.output_width == 1 && output.toTensor().sizes() == at::IntArrayRef(rows)));
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("expected forward to give Float [", absl::StrJoin(expected, ", "),
                                                   "] for ", rows, " rows, found ", Describe(output)));
  }
  run.output = output.toTensor().reshape(expected).contiguous();
  return run;
}

std::vector<at::Tensor> Differentiate(const at::Tensor& output, const at::Tensor& output_gradient,
                                      const std::vector<torch::autograd::Edge>& edges) {
  if (edges.empty()) {
    return {};
  }
  return torch::autograd::Engine::get_default_engine().execute(
      {torch::autograd::impl::gradient_edge(output)}, {output_gradient}, /*keep_graph=*/true,
      /*create_graph=*/false, /*accumulate_grad=*/false, edges);
}

void SeedDefaultGenerator(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());  // LibTorch's own.
  generator.set_current_seed(seed);
}

}  // namespace splitveil
