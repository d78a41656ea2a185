#include "label_party/top/layered_top_model.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/model/export.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/optimizer_options.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "label_party/top/output_directions.h"
#include "label_party/top/task_loss.h"
#include "label_party/top/wide_part.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model";
constexpr char kOwnPrefix[] = "own.";

void Add(ConstMatrixView terms, Matrix& outputs) {
  std::transform(outputs.data(), outputs.data() + outputs.size(), terms.data(), outputs.data(), std::plus<>());
}

class LayeredTopModel final : public TopModel {
 public:
  struct Parts {
    std::unique_ptr<LayerStack> deep;
    std::unique_ptr<InputLayer> own;  // Features read by a layer of `deep`; null without.
    std::unique_ptr<WidePart> wide;   // Null without.
  };

  LayeredTopModel(const FeatureShape& features, const Task& task, Parts parts)
      : features_(features),
        task_(task),
        deep_(std::move(parts.deep)),
        own_(std::move(parts.own)),
        wide_(std::move(parts.wide)) {}

  bool needs_whole_batch() const override { return false; }

  absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels, const TrainingTargets& targets) override {
    absl::StatusOr<TopStep> head = AddSlice(activations, own, labels, targets);
    if (!head.ok()) {
      Forget();
    }
    return head;
  }

  absl::Status Update() override {
    if (slices_.empty()) {
      return absl::FailedPreconditionError("top model: expected a ForwardBackward since the last Update, found none");
    }
    const std::vector<std::unique_ptr<Slice>> slices = std::move(slices_);
    slices_.clear();
    std::vector<LayerStack*> stacks = {deep_.get()};
    std::vector<StackGradients> wide_gradients;  // Holds what `at_wide` shows.
    std::vector<LookupGradient> at_own, at_wide;
    for (const std::unique_ptr<Slice>& slice : slices) {
      at_own.push_back({slice->categories, slice->gradients.side});
      slice->deep_pass = LayerPass();  // The parameters are free to change where they lie.
      if (wide_ != nullptr) {
        SPLITVEIL_ASSIGN_OR_RETURN(StackGradients wide, wide_->Backward(slice->wide_pass, slice->loss.gradient));
        slice->wide_pass = LayerPass();
        at_wide.push_back({slice->categories, wide.input});
        wide_gradients.push_back(std::move(wide));
      }
    }
    if (wide_ != nullptr) {
      stacks.push_back(wide_->linear());
    }
    absl::Status status = LayerStack::Update(stacks);
    if (status.ok() && own_ != nullptr) {
      status = own_->Update(at_own);
    }
    if (status.ok() && wide_ != nullptr) {
      status = wide_->UpdateEmbedding(at_wide);
    }
    return status;
  }

  absl::StatusOr<Matrix> OutputDirections() const override {
    if (slices_.empty()) {
      return absl::FailedPreconditionError("top model: expected a ForwardBackward since the last Update, found none");
    }
    std::vector<Matrix> parts;
    int64_t rows = 0;
    for (const std::unique_ptr<Slice>& slice : slices_) {
      SPLITVEIL_ASSIGN_OR_RETURN(
          Matrix part,
          DirectionsOfOutputs(slice->gradients.input.rows(), task_.outputs(), [&](ConstMatrixView gradient) {
            return deep_->InputGradient(slice->deep_pass, gradient);
          }));
      rows += part.rows();
      parts.push_back(std::move(part));
    }
    Matrix directions = Matrix::ToOverwrite(rows, parts.front().cols());
    int64_t first = 0;
    for (const Matrix& part : parts) {
      directions.SetBlock(first, part);
      first += part.rows();
    }
    return directions;
  }

  absl::StatusOr<Matrix> ProbeCutGradient(ConstMatrixView activations, const FeatureBatch& own,
                                          absl::Span<const float> labels) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const TopStep head, ForwardBackward(activations, own, labels, {}));
    Matrix gradient(head.cut_gradient);
    Forget();
    return gradient;
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    Matrix own_storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView side,
                               AssembleOwn(activations, own, ParameterUse::kPrediction, own_storage));
    SPLITVEIL_ASSIGN_OR_RETURN(Matrix outputs, deep_->Predict(activations, side));
    if (wide_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(const Matrix wide, wide_->Predict(own));
      Add(wide, outputs);
    }
    return std::vector<float>(outputs.data(), outputs.data() + outputs.size());
  }

  NamedParameters Parameters() const override { return CopyParameters(Views(ParameterUse::kPrediction)); }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    SPLITVEIL_RETURN_IF_ERROR(AssignParameters(parameters, Views(ParameterUse::kTraining)));
    deep_->RestartAverage();
    if (own_ != nullptr) {
      own_->RestartAverage();
    }
    if (wide_ != nullptr) {
      wide_->RestartAverage();
    }
    return absl::OkStatus();
  }

  NamedParameters TrainingState() const override { return CopyTrainingState(StateViews(), deep_->steps()); }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, AssignTrainingState(state, StateViews()));
    deep_->set_steps(steps);
    if (own_ != nullptr) {
      own_->set_steps(steps);
    }
    if (wide_ != nullptr) {
      wide_->set_steps(steps);
    }
    return absl::OkStatus();
  }

  absl::Status ExportTo(const std::string& folder) const override {
    HalfScript script({"z"}, own_ != nullptr || wide_ != nullptr ? &features_ : nullptr);
    if (own_ != nullptr) {
      script.Assemble("own", *own_, kOwnPrefix);
    }
    script.Add("x = z");
    script.Apply("x", *deep_, "own");
    if (wide_ != nullptr) {
      wide_->Describe("wide", script);
      script.Add("x = x + wide");
    }
    return ExportHalf(script, task_.outputs() == 1 ? "torch.flatten(x)" : "x", {folder, "label_party"});
  }

 private:
  // Rows between ForwardBackward and Update: no gradient that leaves waits for what only Update needs.
  struct Slice {
    Matrix own_storage, wide_storage;
    LayerPass deep_pass, wide_pass;
    TaskLoss loss;
    StackGradients gradients;
    absl::Span<const int64_t> categories;
  };

  absl::StatusOr<TopStep> AddSlice(ConstMatrixView activations, const FeatureBatch& own, absl::Span<const float> labels,
                                   const TrainingTargets& targets) {
    const SteadyTime started = SteadyNow();
    auto slice = std::make_unique<Slice>();
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView side,
                               AssembleOwn(activations, own, ParameterUse::kTraining, slice->own_storage));
    SPLITVEIL_ASSIGN_OR_RETURN(slice->deep_pass, deep_->Forward(activations, side));
    Matrix outputs(slice->deep_pass.output());
    if (wide_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(slice->wide_pass, wide_->Forward(own, slice->wide_storage));
      Add(slice->wide_pass.output(), outputs);
    }

    SPLITVEIL_ASSIGN_OR_RETURN(slice->loss, LossOf({task_, targets.noise_stddev}, outputs, labels, targets.values));
    const double forward_seconds = SecondsSince(started);
    SPLITVEIL_ASSIGN_OR_RETURN(slice->gradients, deep_->Backward(slice->deep_pass, slice->loss.gradient, {}));
    slice->categories = own.categories;
    slices_.push_back(std::move(slice));
    const Slice& kept = *slices_.back();
    return TopStep{kept.loss.mean, kept.gradients.input, forward_seconds, kept.loss.predictions,
                   static_cast<ConstMatrixView>(kept.loss.gradient).values()};
  }

  // Drops what is kept for Update.
  void Forget() {
    slices_.clear();
    deep_->Forget();
  }

  // What a layer reads of the own features beside the activations; empty where none does.
  absl::StatusOr<ConstMatrixView> AssembleOwn(ConstMatrixView activations, const FeatureBatch& own, ParameterUse use,
                                              Matrix& storage) const {
    if ((own_ != nullptr || wide_ != nullptr) && own.rows != activations.rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("own features: expected ", activations.rows(), " rows, found ", own.rows));
    }
    return own_ == nullptr ? ConstMatrixView() : own_->Assemble(own, use, storage);
  }

  std::vector<ParameterView> Views(ParameterUse use) const {
    return Joined({deep_->parameters("", use),
                   own_ == nullptr ? std::vector<ParameterView>() : own_->parameters(kOwnPrefix, use),
                   wide_ == nullptr ? std::vector<ParameterView>() : wide_->parameters(use)});
  }

  std::vector<ParameterView> StateViews() const {
    return Joined({Views(ParameterUse::kTraining), deep_->optimizer_state(""),
                   own_ == nullptr ? std::vector<ParameterView>() : own_->optimizer_state(kOwnPrefix),
                   wide_ == nullptr ? std::vector<ParameterView>() : wide_->optimizer_state()});
  }

  FeatureShape features_;
  const Task task_;
  std::unique_ptr<LayerStack> deep_;
  std::unique_ptr<InputLayer> own_;
  std::unique_ptr<WidePart> wide_;
  std::vector<std::unique_ptr<Slice>> slices_;  // Since the last Update.
};

// The layers of `spec` and the linear outputs behind them.
LayerChain DeepChain(const TopModelOptions& options) {
  LayerChain chain;
  chain.field = kField;
  chain.input_width = options.cut_width;
  chain.input_image = ImageOf(options.spec);
  chain.layers = LayersOf(options.spec);
  v1::Layer& logit = chain.layers.emplace_back();
  logit.set_name(kLogitName);
  logit.set_units(static_cast<int32_t>(options.task.outputs()));
  logit.set_activation(v1::LINEAR);
  chain.initialization = options.spec.initialization();
  return chain;
}

// Index of the layer that reads the own features; TopHalf has made sure that there is one.
int64_t SideLayer(const v1::OwnFeatures& own, const std::vector<v1::Layer>& layers) {
  if (own.before().empty()) {
    return 0;
  }
  const auto found =
      std::find_if(layers.begin(), layers.end(), [&](const v1::Layer& layer) { return layer.name() == own.before(); });
  return found - layers.begin();
}

absl::StatusOr<std::unique_ptr<InputLayer>> CreateOwn(const TopModelOptions& options, const OptimizerOptions& optimizer,
                                                      uint64_t seed) {
  const v1::OwnFeatures& spec = options.spec.own_features();
  InputLayer::Options input;
  input.field = absl::StrCat(kField, ".own_features");
  input.features = options.features;
  input.embedding = spec.has_embedding() ? &spec.embedding() : nullptr;
  input.optimizer = optimizer;
  input.seed = seed;
  return InputLayer::Create(input);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopModel>> CreateLayeredTopModel(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  std::mt19937_64 seeds(options.seed);
  LayeredTopModel::Parts parts;
  LayerStack::Options deep_options;
  deep_options.chain = DeepChain(options);
  deep_options.optimizer = optimizer;
  deep_options.seed = seeds();
  deep_options.input_gradient = options.cut_gradient;
  deep_options.gradients_in_update = true;
  const uint64_t wide_seed = seeds();
  if (options.spec.has_own_features()) {
    SPLITVEIL_ASSIGN_OR_RETURN(parts.own, CreateOwn(options, optimizer, seeds()));
    deep_options.chain.side_width = parts.own->width();
    deep_options.chain.side_layer = SideLayer(options.spec.own_features(), deep_options.chain.layers);
    deep_options.side_gradient = parts.own->has_embedding();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(parts.deep, LayerStack::Create(deep_options));
  if (options.spec.has_wide()) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        std::unique_ptr<WidePart> wide,
        WidePart::Create(options.spec.wide(), options.features, options.task.outputs(), optimizer, wide_seed));
    parts.wide = std::move(wide);
  }
  return std::make_unique<LayeredTopModel>(options.features, options.task, std::move(parts));
}

}  // namespace splitveil
