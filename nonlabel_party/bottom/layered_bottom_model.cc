#include "nonlabel_party/bottom/layered_bottom_model.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/architecture/model_spec.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/bottom/bottom_export.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model";

absl::StatusOr<LayerChain> ChainOf(const BottomModelOptions& options, int64_t input_width) {
  LayerChain chain;
  chain.field = kField;
  chain.input_width = input_width;
  chain.input_image = options.features.image;
  chain.layers = LayersOf(options.spec);
  chain.initialization = options.spec.initialization();
  const ImageShape told = ImageOf(options.spec);
  const ImageShape& found = chain.input_image;
  if (options.spec.has_input_image() &&
      (told.channels != found.channels || told.height != found.height || told.width != found.width)) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".input_image: expected ", found.channels, " x ",
                                                   found.height, " x ", found.width, ", the images of the data, found ",
                                                   told.channels, " x ", told.height, " x ", told.width));
  }
  return chain;
}

absl::Status CheckCutWidth(const std::vector<PlannedLayer>& plan, int64_t cut_width) {
  const PlannedLayer& last = plan.back();
  if (last.width() != cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".layers[", plan.size() - 1,
                                                   last.is_convolution() ? "] output" : "].units", ": expected ",
                                                   cut_width, ", the agreed cut width, found ", last.width()));
  }
  return absl::OkStatus();
}

// A slice of a batch between its Forward and the Update that learns from it. It stays where it is made: `pass` reads
// `batch` or `input`.
struct PendingSlice {
  FeatureBatch batch;
  Matrix input;
  LayerPass pass;
  StackGradients gradients;
  Matrix added;  // At the input, by AddGradient; empty: none.

  // At the input, all together.
  ConstMatrixView at_input() const { return added.size() > 0 ? ConstMatrixView(added) : gradients.input; }
};

// `values` += `more`, of the same shape.
void AddTo(Matrix& values, ConstMatrixView more) {
  std::transform(values.data(), values.data() + values.size(), more.data(), values.data(), std::plus<>());
}

class LayeredBottomModel final : public BottomModel {
 public:
  LayeredBottomModel(const FeatureShape& features, std::unique_ptr<InputLayer> input,
                     std::unique_ptr<LayerStack> layers, std::vector<std::string> layer_names)
      : features_(features),
        input_(std::move(input)),
        layers_(std::move(layers)),
        layer_names_(std::move(layer_names)) {}

  bool needs_whole_batch() const override { return false; }

  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override {
    auto pending = std::make_unique<PendingSlice>();
    pending->batch = std::move(batch);
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input,
                               input_->Assemble(pending->batch, ParameterUse::kTraining, pending->input));
    SPLITVEIL_ASSIGN_OR_RETURN(LayerPass pass, layers_->Forward(input));
    pending->pass = std::move(pass);
    pending_.push_back(std::move(pending));
    return pending_.back()->pass.output();
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input,
                               input_->Assemble(batch, ParameterUse::kPrediction, storage));
    return layers_->Predict(input);
  }

  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<int64_t> below_cut, LayersBelowCut(layers));
    SPLITVEIL_ASSIGN_OR_RETURN(StackGradients gradients,
                               layers_->Backward(pending_.front()->pass, cut_gradient, below_cut));
    current_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    StackGradients& kept = current_.back()->gradients;
    kept = std::move(gradients);

    std::vector<ConstMatrixView> result;
    size_t next = 0;
    for (const std::string& layer : layers) {
      result.push_back(layer == kCutName ? cut_gradient : kept.outputs[next++]);
    }
    return result;
  }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    if (current_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a hint between Backward and Update");
    }
    auto slice = current_.begin();
    while (row >= (*slice)->batch.rows && std::next(slice) != current_.end()) {
      row -= (*slice++)->batch.rows;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<int64_t> below_cut, LayersBelowCut(layers));
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::vector<float>> gradients,
                               layers_->BackwardRow((*slice)->pass, row, clean_gradient, below_cut));
    std::vector<std::vector<float>> result;
    size_t next = 0;
    for (const std::string& layer : layers) {
      result.push_back(layer == kCutName ? std::vector<float>(clean_gradient.begin(), clean_gradient.end())
                                         : std::move(gradients[next++]));
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
    if (current_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a Backward since the last Update, found none");
    }
    const std::vector<std::unique_ptr<PendingSlice>> learnt = std::move(current_);
    current_.clear();
    std::vector<LookupGradient> at_input;
    for (const std::unique_ptr<PendingSlice>& slice : learnt) {
      slice->pass = LayerPass();  // The parameters are free to change where they lie.
      at_input.push_back({slice->batch.categories, slice->at_input()});
    }
    SPLITVEIL_RETURN_IF_ERROR(LayerStack::Update({layers_.get()}));
    return input_->Update(at_input);
  }

  absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView> cut_gradients) override {
    const size_t m = cut_gradients.size();
    std::vector<std::vector<double>> dense(m);   // Of each objective, at the layers.
    std::vector<std::vector<Matrix>> inputs(m);  // At the input, slice by slice.
    std::vector<std::vector<LookupGradient>> at_embedding(m);
    for (size_t i = 0; i < m; ++i) {
      SPLITVEIL_RETURN_IF_ERROR(CheckWholeBatch(cut_gradients[i]));
      int64_t first = 0;
      for (const std::unique_ptr<PendingSlice>& slice : current_) {
        SPLITVEIL_ASSIGN_OR_RETURN(LayerStack::ObjectiveGradient gradient,
                                   layers_->GradientOf(slice->pass, cut_gradients[i].block(first, slice->batch.rows)));
        dense[i].resize(gradient.parameters.size());
        std::transform(dense[i].begin(), dense[i].end(), gradient.parameters.begin(), dense[i].begin(), std::plus<>());
        inputs[i].push_back(std::move(gradient.input));
        first += slice->batch.rows;
      }
      for (size_t part = 0; part < current_.size(); ++part) {
        at_embedding[i].push_back({current_[part]->batch.categories, inputs[i][part]});
      }
    }
    std::vector<double> products = input_->GradientProducts(at_embedding);
    const auto rows = static_cast<double>(cut_gradients.front().rows());
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < m; ++j) {
        products[i * m + j] +=
            std::inner_product(dense[i].begin(), dense[i].end(), dense[j].begin(), 0.0) / (rows * rows);
      }
    }
    return products;
  }

  absl::Status AddGradient(ConstMatrixView cut_gradient) override {
    SPLITVEIL_RETURN_IF_ERROR(CheckWholeBatch(cut_gradient));
    int64_t first = 0;
    for (const std::unique_ptr<PendingSlice>& slice : current_) {
      SPLITVEIL_ASSIGN_OR_RETURN(Matrix at_input,
                                 layers_->AddGradient(slice->pass, cut_gradient.block(first, slice->batch.rows)));
      if (at_input.size() > 0) {
        AddTo(at_input, slice->at_input());
        slice->added = std::move(at_input);
      }
      first += slice->batch.rows;
    }
    return absl::OkStatus();
  }

  std::vector<std::string> layer_names() const override { return layer_names_; }

  NamedParameters Parameters() const override { return CopyParameters(Views(ParameterUse::kPrediction)); }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    SPLITVEIL_RETURN_IF_ERROR(AssignParameters(parameters, Views(ParameterUse::kTraining)));
    input_->RestartAverage();
    layers_->RestartAverage();
    return absl::OkStatus();
  }

  NamedParameters TrainingState() const override { return CopyTrainingState(StateViews(), layers_->steps()); }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, AssignTrainingState(state, StateViews()));
    layers_->set_steps(steps);
    input_->set_steps(steps);
    return absl::OkStatus();
  }

  absl::Status ExportTo(const std::string& folder) const override {
    return ExportBottomModel(features_, *input_, layers_.get(), folder);
  }

 private:
  // Indices of `layers` for the stack, without those that mean the cut layer itself.
  absl::StatusOr<std::vector<int64_t>> LayersBelowCut(absl::Span<const std::string> layers) const {
    std::vector<int64_t> indices;
    for (const std::string& layer : layers) {
      const auto found = std::find(layer_names_.begin(), layer_names_.end(), layer);
      if (found == layer_names_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("layer: expected one of ", absl::StrJoin(layer_names_, ", "), ", found \"", layer, "\""));
      }
      if (layer != kCutName) {
        indices.push_back(found - layer_names_.begin());
      }
    }
    return indices;
  }

  absl::Status CheckWholeBatch(ConstMatrixView cut_gradient) const {
    int64_t rows = 0;
    for (const std::unique_ptr<PendingSlice>& slice : current_) {
      rows += slice->batch.rows;
    }
    if (rows == 0 || cut_gradient.rows() != rows) {
      return absl::FailedPreconditionError(absl::StrCat("bottom model: expected a gradient for the ", rows,
                                                        " rows since the last Update, found ", cut_gradient.rows()));
    }
    return absl::OkStatus();
  }

  std::vector<ParameterView> Views(ParameterUse use) const {
    return Joined({input_->parameters("", use), layers_->parameters("", use)});
  }

  std::vector<ParameterView> StateViews() const {
    return Joined({Views(ParameterUse::kTraining), input_->optimizer_state(""), layers_->optimizer_state("")});
  }

  FeatureShape features_;
  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<LayerStack> layers_;
  std::vector<std::string> layer_names_;
  std::deque<std::unique_ptr<PendingSlice>> pending_;
  std::vector<std::unique_ptr<PendingSlice>> current_;  // Between Backward and Update.
};

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> CreateLayeredBottomModel(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  std::mt19937_64 seeds(options.seed);

  InputLayer::Options input_options;
  input_options.field = kField;
  input_options.features = options.features;
  input_options.embedding = options.spec.has_embedding() ? &options.spec.embedding() : nullptr;
  input_options.optimizer = optimizer;
  input_options.seed = seeds();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<InputLayer> input, InputLayer::Create(input_options));

  LayerStack::Options stack_options;
  SPLITVEIL_ASSIGN_OR_RETURN(LayerChain chain, ChainOf(options, input->width()));
  stack_options.chain = std::move(chain);
  stack_options.optimizer = optimizer;
  stack_options.seed = seeds();
  stack_options.input_gradient = input->has_embedding();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<PlannedLayer> plan, PlanLayers(stack_options.chain));
  SPLITVEIL_RETURN_IF_ERROR(CheckCutWidth(plan, options.cut_width));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> layers, LayerStack::Create(stack_options));
  return std::make_unique<LayeredBottomModel>(options.features, std::move(input), std::move(layers),
                                              AuditedNames(options.spec));
}

}  // namespace splitveil
