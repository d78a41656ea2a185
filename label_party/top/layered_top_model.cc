#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/architecture/model_spec.h"
#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"
#include "common/model/export.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "label_party/top/built_in_models.h"
#include "label_party/top/task_loss.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {
namespace {

constexpr char kWideField[] = "model.wide";
constexpr char kWideName[] = "wide";

// Term of the outputs: W . [embeddings of the categorical columns, numeric columns] + b (Cheng et al., "Wide & deep
// learning for recommender systems", DLRS 2016, section 3.1). Not thread-safe.
class WidePart {
 public:
  // Errors: InvalidArgument if the specification does not fit the features.
  static absl::StatusOr<std::unique_ptr<WidePart>> Create(const v1::WidePart& spec, const FeatureShape& features,
                                                          int64_t outputs, const OptimizerOptions& optimizer,
                                                          uint64_t seed);

  // Terms [batch, outputs].
  absl::StatusOr<Matrix> Predict(const FeatureBatch& own) const;
  // The pass, whose output are the terms, reads `own` and `storage`, which must outlive it.
  absl::StatusOr<LayerPass> Forward(const FeatureBatch& own, Matrix& storage) const;
  // Back-propagates per-example gradients [batch, outputs] at the terms: those at the input.
  absl::StatusOr<StackGradients> Backward(LayerPass& pass, ConstMatrixView logit_gradient);
  // One optimiser step of the embedding; `parts` as InputLayer::Update. That of linear() goes with the party's other
  // layers.
  absl::Status UpdateEmbedding(absl::Span<const LookupGradient> parts);
  LayerStack* linear() { return linear_.get(); }

  // "wide.embedding" (with categorical columns), "wide.weight", "wide.bias".
  std::vector<ParameterView> parameters(ParameterUse use);
  // What else training resumes from.
  std::vector<ParameterView> optimizer_state();
  void set_steps(int64_t steps);
  // The averages, if there are any, restart from the parameters.
  void RestartAverage();
  // Assigns the terms to `variable`.
  void Describe(const std::string& variable, HalfScript& script) const;

 private:
  WidePart(std::unique_ptr<InputLayer> input, std::unique_ptr<LayerStack> linear);

  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<LayerStack> linear_;
};

absl::StatusOr<std::unique_ptr<WidePart>> WidePart::Create(const v1::WidePart& spec, const FeatureShape& features,
                                                           int64_t outputs, const OptimizerOptions& optimizer,
                                                           uint64_t seed) {
  // A seed each, in a fixed order: a run with reproducible_seed depends on it.
  std::mt19937_64 seeds(seed);

  InputLayer::Options input_options;
  input_options.field = kWideField;
  input_options.features = features;
  input_options.embedding = spec.has_embedding() ? &spec.embedding() : nullptr;
  input_options.optimizer = optimizer;
  input_options.seed = seeds();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<InputLayer> input, InputLayer::Create(input_options));

  LayerStack::Options linear_options;
  linear_options.chain.field = kWideField;
  linear_options.chain.input_width = input->width();
  v1::Layer& layer = linear_options.chain.layers.emplace_back();
  layer.set_name(kWideName);
  layer.set_units(static_cast<int32_t>(outputs));
  layer.set_activation(v1::LINEAR);
  linear_options.optimizer = optimizer;
  linear_options.seed = seeds();
  // Only an embedding learns from the gradient at the input: without one it need not be computed.
  linear_options.input_gradient = input->has_embedding();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> linear, LayerStack::Create(linear_options));
  return absl::WrapUnique(new WidePart(std::move(input), std::move(linear)));
}

WidePart::WidePart(std::unique_ptr<InputLayer> input, std::unique_ptr<LayerStack> linear)
    : input_(std::move(input)), linear_(std::move(linear)) {}

absl::StatusOr<Matrix> WidePart::Predict(const FeatureBatch& own) const {
  Matrix storage;
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input, input_->Assemble(own, ParameterUse::kPrediction, storage));
  return linear_->Predict(input);
}

absl::StatusOr<LayerPass> WidePart::Forward(const FeatureBatch& own, Matrix& storage) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input, input_->Assemble(own, ParameterUse::kTraining, storage));
  return linear_->Forward(input);
}

absl::StatusOr<StackGradients> WidePart::Backward(LayerPass& pass, ConstMatrixView logit_gradient) {
  return linear_->Backward(pass, logit_gradient, {});
}

absl::Status WidePart::UpdateEmbedding(absl::Span<const LookupGradient> parts) { return input_->Update(parts); }

std::vector<ParameterView> WidePart::parameters(ParameterUse use) {
  return Joined({input_->parameters(absl::StrCat(kWideName, "."), use), linear_->parameters("", use)});
}

std::vector<ParameterView> WidePart::optimizer_state() {
  return Joined({input_->optimizer_state(absl::StrCat(kWideName, ".")), linear_->optimizer_state("")});
}

void WidePart::set_steps(int64_t steps) {
  input_->set_steps(steps);
  linear_->set_steps(steps);
}

void WidePart::RestartAverage() {
  input_->RestartAverage();
  linear_->RestartAverage();
}

void WidePart::Describe(const std::string& variable, HalfScript& script) const {
  script.Assemble(variable, *input_, std::string(kWideName) + ".");
  script.Apply(variable, *linear_);
}

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
    // After an error the batch is lost: its slices must not be learnt from with the next one.
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
    // Taken first: they are used up whether or not the update succeeds.
    const std::vector<std::unique_ptr<Slice>> slices = std::move(slices_);
    slices_.clear();
    std::vector<LayerStack*> stacks = {deep_.get()};
    std::vector<StackGradients> wide_gradients;  // Holds what `at_wide` shows.
    std::vector<LookupGradient> at_own, at_wide;
    for (const std::unique_ptr<Slice>& slice : slices) {
      // Gradients of all slices are collected, and each optimiser makes one step: a step for each slice would be a
      // different training.
      at_own.push_back({slice->categories, slice->gradients.side});
      slice->deep_pass = LayerPass();  // The parameters are free to change where they lie.
      if (wide_ != nullptr) {
        // The wide part does not depend on activations, so its gradients were not needed before the cut gradient was
        // sent.
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
    // The slices of a batch, one below the other, in the order in which they came.
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
    if (parts.size() == 1) {
      return std::move(parts.front());  // Of hundreds of classes the largest matrix of a step.
    }
    Matrix directions = Matrix::ToOverwrite(rows, parts.front().cols());
    int64_t first = 0;
    // Passes of single slices, but directions of the whole batch: planner and audit look at batches.
    for (const Matrix& part : parts) {
      directions.SetBlock(first, part);
      first += part.rows();
    }
    return directions;
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
    // Averages of other weights mean nothing for these: each part restarts its own.
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
  // Rows between ForwardBackward and Update: no gradient that is sent waits for what only Update needs.
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
    // The deep part alone, now: it makes the cut gradient, for which the peer waits.
    SPLITVEIL_ASSIGN_OR_RETURN(slice->gradients, deep_->Backward(slice->deep_pass, slice->loss.gradient, {}));
    slice->categories = own.categories;
    // On the heap, so that the views in the returned step stay valid while further slices come.
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

  // What a layer reads of the own features beside the activations; empty if none does.
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
  // Without `before`, the first layer reads them, beside the activations.
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
  input.pieces = options.spec.numeric_pieces();
  return InputLayer::Create(input);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TopModel>> CreateLayeredTopModel(const TopModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  // A seed for each part from one generator, so that a run with reproducible_seed starts from the same weights.
  std::mt19937_64 seeds(options.seed);
  LayeredTopModel::Parts parts;
  LayerStack::Options deep_options;
  deep_options.chain = DeepChain(options);
  deep_options.optimizer = optimizer;
  deep_options.seed = seeds();
  deep_options.input_gradient = options.cut_gradient;
  // Weight gradients are computed in Update, after the cut gradients were sent.
  deep_options.gradients_in_update = true;
  // Drawn in any case and before the seed of the own features: adding one part must not change how another one starts.
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
