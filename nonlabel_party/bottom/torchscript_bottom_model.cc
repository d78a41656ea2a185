#include "nonlabel_party/bottom/torchscript_bottom_model.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/model/export.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/optimizer_options.h"
#include "common/model/torchscript_module.h"
#include "common/model/torchscript_state.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model";

// "cut" is the module's output, even if a submodule has that name.
std::vector<std::string> LayerNames(const TorchScriptModule& module) {
  std::vector<std::string> names = module.layers();
  names.erase(std::remove(names.begin(), names.end(), kCutName), names.end());
  names.emplace_back(kCutName);
  return names;
}

// A batch between its Forward and the Update that learns from it.
struct PendingBatch {
  std::vector<int64_t> categories;
  TorchScriptPass pass;
  TorchScriptGradients gradients;
};

class TorchScriptBottomModel final : public BottomModel {
 public:
  // `embedding` is null if the module gets the categories itself, or there are none.
  TorchScriptBottomModel(const FeatureShape& features, std::unique_ptr<InputLayer> embedding,
                         std::unique_ptr<TorchScriptModule> module)
      : features_(features), embedding_(std::move(embedding)), module_(std::move(module)) {}

  bool needs_whole_batch() const override { return true; }

  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override {
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptInput input, InputOf(batch, ParameterUse::kTraining, storage));
    SPLITVEIL_ASSIGN_OR_RETURN(TorchScriptPass pass, module_->Forward(input));
    auto pending = std::make_unique<PendingBatch>();
    pending->categories = std::move(batch.categories);
    pending->pass = std::move(pass);
    pending_.push_back(std::move(pending));
    return pending_.back()->pass.output();
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix storage;
    const absl::StatusOr<TorchScriptInput> input = InputOf(batch, ParameterUse::kPrediction, storage);
    return input.ok() ? module_->Predict(*input) : input.status();
  }

  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    // Whole batches only: the module may normalise over the batch, so it has no slices to sum up.
    if (current_ != nullptr) {
      return absl::FailedPreconditionError("bottom model: expected an Update since the last Backward, found none");
    }
    SPLITVEIL_ASSIGN_OR_RETURN(TorchScriptGradients gradients,
                               module_->Backward(pending_.front()->pass, cut_gradient, BelowCut(layers)));
    current_ = std::move(pending_.front());
    pending_.pop_front();
    current_->gradients = std::move(gradients);
    std::vector<ConstMatrixView> result;
    auto next = current_->gradients.layers.begin();
    for (const std::string& layer : layers) {
      result.push_back(layer == kCutName ? cut_gradient : ConstMatrixView(*next++));
    }
    return result;
  }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    if (current_ == nullptr) {
      return absl::FailedPreconditionError("bottom model: expected a hint between Backward and Update");
    }
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::vector<float>> gradients,
                               module_->BackwardRow(current_->pass, row, clean_gradient, BelowCut(layers)));
    std::vector<std::vector<float>> result;
    auto next = gradients.begin();
    for (const std::string& layer : layers) {
      result.push_back(layer == kCutName ? std::vector<float>(clean_gradient.begin(), clean_gradient.end())
                                         : std::move(*next++));
    }
    return result;
  }

  absl::Status Discard() override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward to discard, found none");
    }
    pending_.pop_front();
    return absl::OkStatus();
  }

  absl::Status Update() override {
    if (current_ == nullptr) {
      return absl::FailedPreconditionError("bottom model: expected a Backward since the last Update, found none");
    }
    // Taken first: after an error the batch is dropped, and the next Backward starts a new one.
    const std::unique_ptr<PendingBatch> learnt = std::move(current_);
    learnt->pass = TorchScriptPass();  // Or the module would leave it its parameters, and be copied.
    if (absl::Status status = module_->Update(); !status.ok() || embedding_ == nullptr) {
      return status;
    }
    return embedding_->Update({{learnt->categories, learnt->gradients.inputs.front()}});
  }

  absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView>) override {
    return OneGradientOnly();
  }
  absl::Status AddGradient(ConstMatrixView) override { return OneGradientOnly(); }

  std::vector<std::string> layer_names() const override { return LayerNames(*module_); }

  NamedParameters Parameters() const override { return state().Parameters(); }
  absl::Status SetParameters(const NamedParameters& parameters) override { return state().SetParameters(parameters); }
  NamedParameters TrainingState() const override { return state().TrainingState(); }
  absl::Status SetTrainingState(const NamedParameters& state) override { return this->state().SetTrainingState(state); }

  absl::Status ExportTo(const std::string& folder) const override {
    const ExportTarget target = {folder, "nonlabel_party"};
    if (embedding_ == nullptr) {
      return ExportModule(*module_, target);
    }
    HalfScript script({}, &features_);
    script.Assemble("x", *embedding_, "");
    return ExportModuleWithin(script, "self.module.forward(x)", *module_, target);
  }

 private:
  // The module's arguments: views of `batch` and `storage`.
  absl::StatusOr<TorchScriptInput> InputOf(const FeatureBatch& batch, ParameterUse use, Matrix& storage) const {
    if (embedding_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView numbers, embedding_->Assemble(batch, use, storage));
      return TorchScriptInput{{numbers}, {}};
    }
    // Checked here, since a reshape inside the module would accept any total.
    if (batch.numeric.size() != batch.rows * features_.numeric) {
      return absl::InvalidArgumentError(absl::StrCat("feature batch, numeric: expected ", batch.rows, " x ",
                                                     features_.numeric, ", found ", batch.numeric.rows(), " x ",
                                                     batch.numeric.cols()));
    }
    return TorchScriptInput{{{batch.numeric.data(), batch.rows, features_.numeric}}, batch.categories};
  }

  static absl::Status OneGradientOnly() {
    return absl::UnimplementedError(
        absl::StrCat(kField,
                     ".torchscript_path: expected built-in layers beside this protection, whose steps have several "
                     "gradients, found a TorchScript file"));
  }

  static std::vector<std::string> BelowCut(absl::Span<const std::string> layers) {
    std::vector<std::string> below(layers.begin(), layers.end());
    below.erase(std::remove(below.begin(), below.end(), kCutName), below.end());
    return below;
  }

  TorchScriptState state() const { return {embedding_.get(), "", module_.get()}; }

  FeatureShape features_;
  std::unique_ptr<InputLayer> embedding_;
  std::unique_ptr<TorchScriptModule> module_;
  std::deque<std::unique_ptr<PendingBatch>> pending_;
  std::unique_ptr<PendingBatch> current_;  // Between Backward and Update.
};

// Whether an embedding of our own comes before the module.
bool HasEmbedding(const BottomModelOptions& options) {
  return options.spec.has_embedding() && options.features.categorical > 0;
}

// Shape of one example of the numbers that the module gets.
absl::StatusOr<std::vector<int64_t>> NumbersShape(const BottomModelOptions& options) {
  const FeatureShape& features = options.features;
  const int64_t embedded = HasEmbedding(options) ? features.categorical * options.spec.embedding().dimension() : 0;
  const ImageShape& image = features.image;
  // Images keep their shape for convolutions; everything else is one row of numbers.
  if (image.channels == 0) {
    return std::vector<int64_t>{embedded + features.numeric};
  }
  if (embedded > 0 || features.numeric != image.pixels()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kField, ".torchscript_path: expected images without numeric columns or an embedding, found ",
        features.numeric - image.pixels(), " numeric columns and ", embedded > 0 ? "an" : "no", " embedding"));
  }
  return std::vector<int64_t>{image.channels, image.height, image.width};
}

absl::StatusOr<TorchScriptModule::Options> ModuleOptions(const BottomModelOptions& options,
                                                         const OptimizerOptions& optimizer, uint64_t seed) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<int64_t> shape, NumbersShape(options));
  // With an embedding of ours the module gets numbers only, and gives back the gradient at them.
  const bool embeds = HasEmbedding(options);
  TorchScriptModule::Options module;
  module.field = absl::StrCat(kField, ".torchscript_path");
  module.path = options.spec.torchscript_path();
  module.numbers = {{std::move(shape), /*gradient=*/embeds}};
  module.category_columns = embeds ? 0 : options.features.categorical;
  module.output_width = options.cut_width;
  module.optimizer = optimizer;
  // Names must not clash with "embedding".
  module.name_prefix = embeds ? "module." : "";
  module.seed = seed;
  return module;
}

absl::StatusOr<std::unique_ptr<TorchScriptModule>> CreateModule(const BottomModelOptions& options,
                                                                const OptimizerOptions& optimizer, uint64_t seed) {
  const absl::StatusOr<TorchScriptModule::Options> module = ModuleOptions(options, optimizer, seed);
  return module.ok() ? TorchScriptModule::Create(*module) : module.status();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckTorchScriptBottomModel(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<TorchScriptModule> module,
                             CreateModule(options, optimizer, options.seed));
  return LayerNames(*module);
}

absl::StatusOr<std::unique_ptr<BottomModel>> CreateTorchScriptBottomModel(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  // The module takes its seed first, so that its draws do not depend on whether there is an embedding.
  std::mt19937_64 seeds(options.seed);
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TorchScriptModule> module, CreateModule(options, optimizer, seeds()));
  std::unique_ptr<InputLayer> embedding;
  if (HasEmbedding(options)) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        embedding, InputLayer::Create({kField, options.features, &options.spec.embedding(), optimizer, seeds()}));
  }
  return std::make_unique<TorchScriptBottomModel>(options.features, std::move(embedding), std::move(module));
}

}  // namespace splitveil
