#include "common/model/torchscript_trial.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"

#include "common/model/torchscript_file.h"
#include "common/model/torchscript_run.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Numbers in [0, 1), as prepared data have, and category 0, which every vocabulary has. Of two batches the shorter is
// the beginning of the longer.
struct Batch {
  Batch(const TorchScriptOptions& options, int64_t rows)
      : categories(static_cast<size_t>(rows * options.category_columns)) {
    for (const TorchScriptNumbers& argument : options.numbers) {
      std::mt19937 random(1);
      numbers.emplace_back(
          rows, std::accumulate(argument.shape.begin(), argument.shape.end(), int64_t{1}, std::multiplies<int64_t>()));
      std::generate_n(numbers.back().data(), numbers.back().size(),
                      [&] { return static_cast<float>(random() >> 8) * 0x1p-24F; });
    }
  }

  TorchScriptInput input() const { return {{numbers.begin(), numbers.end()}, categories}; }

  std::vector<Matrix> numbers;
  std::vector<int64_t> categories;
};

// A tensor of floats, the batch first, that training reaches.
bool IsLayer(const LayerOutput& output, int64_t rows) {
  return output.edge.is_valid() && output.dtype == at::kFloat && !output.sizes.empty() && output.sizes[0] == rows &&
         std::find(output.sizes.begin(), output.sizes.end(), 0) == output.sizes.end();
}

// Layers of `few` whose shape goes with the batch, as that in `more` tells.
std::vector<const LayerOutput*> BatchFirstLayers(const TorchScriptRun& few, const TorchScriptRun& more) {
  std::vector<const LayerOutput*> layers;
  for (const LayerOutput& output : few.layers) {
    const auto other = std::find_if(more.layers.begin(), more.layers.end(),
                                    [&](const LayerOutput& candidate) { return candidate.layer == output.layer; });
    if (IsLayer(output, few.output.size(0)) && other != more.layers.end() && IsLayer(*other, more.output.size(0))) {
      layers.push_back(&output);
    }
  }
  return layers;
}

absl::StatusOr<std::vector<std::string>> TryTraining(const TorchScriptOptions& options, const LayeredForward& forward,
                                                     const torch::jit::Module& module, const Batch& few,
                                                     const Batch& more) {
  const at::AutoGradMode grad(true);
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun few_run,
                             RunTorchScript(options, forward, CopyModule(module, /*train=*/true), few.input()));
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun more_run,
                             RunTorchScript(options, forward, CopyModule(module, /*train=*/true), more.input()));
  if (!few_run.output.requires_grad()) {
    return absl::InvalidArgumentError("expected parameters that can be trained, found none that the output depends on");
  }
  const std::vector<const LayerOutput*> layers = BatchFirstLayers(few_run, more_run);
  std::vector<torch::autograd::Edge> edges;
  for (const LayerOutput* layer : layers) {
    edges.push_back(layer->edge);
  }
  const std::vector<at::Tensor> gradients = Differentiate(few_run.output, at::ones_like(few_run.output), edges);
  std::vector<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (gradients[i].defined()) {
      names.push_back(layers[i]->layer);
    }
  }
  return names;
}

absl::Status TryPrediction(const TorchScriptOptions& options, const LayeredForward& forward,
                           const torch::jit::Module& module, const Batch& few, const Batch& more) {
  const at::NoGradGuard no_grad;
  const torch::jit::Module copy = CopyModule(module, /*train=*/false);
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun few_run, RunTorchScript(options, forward, copy, few.input()));
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun more_run, RunTorchScript(options, forward, copy, more.input()));
  // Products of matrices of other sizes are rounded otherwise.
  if (!at::allclose(few_run.output, more_run.output.narrow(0, 0, few_run.output.size(0)), 1e-4, 1e-4)) {
    return absl::InvalidArgumentError(
        "expected a row's output in eval mode to depend on that row alone, found that it depends on other rows or on "
        "chance: script the module, or trace it in eval mode");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TryTorchScript(const TorchScriptOptions& options,
                                                        const LayeredForward& forward,
                                                        const torch::jit::Module& module) {
  try {
    const Batch few(options, 2);
    const Batch more(options, 3);
    absl::StatusOr<std::vector<std::string>> layers = TryTraining(options, forward, module, few, more);
    if (!layers.ok()) {
      return layers;
    }
    SPLITVEIL_RETURN_IF_ERROR(TryPrediction(options, forward, module, few, more));
    return layers;
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected forward to run on a batch, found an error: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected forward to run on a batch, found an error: ", error.what()));
  }
}

}  // namespace splitveil
