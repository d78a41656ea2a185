// The built-in bottom model, and the choice of implementation: not in bottom_model.h, so that the interface need not
// know its implementations.
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
#include "common/model/export.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/bottom/gradient_exchange.h"
#include "nonlabel_party/bottom/torchscript_bottom_model.h"

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
  // An explicit input_image lets the label party plan the cut; it must match the data.
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

// Found here the error names the layer; found by the peer it would be a message of the wrong shape.
absl::Status CheckCutWidth(const std::vector<PlannedLayer>& plan, int64_t cut_width) {
  const PlannedLayer& last = plan.back();
  if (last.width() != cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".layers[", plan.size() - 1,
                                                   last.is_convolution() ? "] output" : "].units", ": expected ",
                                                   cut_width, ", the agreed cut width, found ", last.width()));
  }
  return absl::OkStatus();
}

absl::Status CheckGradient(int64_t rows, int64_t cols, ConstMatrixView gradient) {
  if (gradient.rows() != rows || gradient.cols() != cols) {
    return absl::InvalidArgumentError(absl::StrCat("output gradient: expected ", rows, " x ", cols, ", found ",
                                                   gradient.rows(), " x ", gradient.cols()));
  }
  return absl::OkStatus();
}

// A slice of a batch between its Forward and the Update that learns from it. It stays where it is made: `pass` and
// `output` read `batch` or `input`.
struct PendingSlice {
  FeatureBatch batch;
  Matrix input;
  LayerPass pass;          // Unused without layers.
  ConstMatrixView output;  // At the cut.
  StackGradients gradients;
  Matrix added;  // At the input, by AddGradient or without layers; empty: none.

  // At the input, all together.
  ConstMatrixView at_input() const { return added.size() > 0 ? ConstMatrixView(added) : gradients.input; }
};

// `values` += `more`, of the same shape.
void AddTo(Matrix& values, ConstMatrixView more) {
  std::transform(values.data(), values.data() + values.size(), more.data(), values.data(), std::plus<>());
}

// Without layers the activations are the assembled input, and the gradient at the cut is that at the input.
class LayeredBottomModel final : public BottomModel {
 public:
  // `layers`: null if the cut is directly behind the embeddings.
  LayeredBottomModel(const FeatureShape& features, std::unique_ptr<InputLayer> input,
                     std::unique_ptr<LayerStack> layers, std::vector<std::string> layer_names,
                     GradientExchange* exchange)
      : features_(features),
        input_(std::move(input)),
        layers_(std::move(layers)),
        layer_names_(std::move(layer_names)),
        exchange_(exchange) {}

  bool needs_whole_batch() const override { return false; }

  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override {
    auto pending = std::make_unique<PendingSlice>();
    pending->batch = std::move(batch);
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input,
                               input_->Assemble(pending->batch, ParameterUse::kTraining, pending->input));
    pending->output = input;
    if (layers_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(pending->pass, layers_->Forward(input));
      pending->output = pending->pass.output();
    }
    // Several may wait: with batches in flight, gradients come for the oldest while newer ones are on their way.
    pending_.push_back(std::move(pending));
    return pending_.back()->output;
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix storage;
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input,
                               input_->Assemble(batch, ParameterUse::kPrediction, storage));
    return layers_ == nullptr ? Matrix(input) : layers_->Predict(input);
  }

  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    // Names first: a refused call must not change the pending forward.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<int64_t> below_cut, LayersBelowCut(layers));
    PendingSlice& slice = *pending_.front();
    if (layers_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(slice.gradients, layers_->Backward(slice.pass, cut_gradient, below_cut));
    } else {
      SPLITVEIL_RETURN_IF_ERROR(CheckGradient(slice.batch.rows, slice.output.cols(), cut_gradient));
      slice.added = Matrix(cut_gradient);  // A copy: the caller's may be freed before the Update.
    }
    current_.push_back(std::move(pending_.front()));
    pending_.pop_front();

    std::vector<ConstMatrixView> result;
    size_t next = 0;
    for (const std::string& layer : layers) {
      // "cut" is the gradient itself; the stack gives the layers below, in the order in which they were asked for.
      result.push_back(layer == kCutName ? cut_gradient : slice.gradients.outputs[next++]);
    }
    return result;
  }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    if (current_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a hint between Backward and Update");
    }
    // `row` counts over the whole batch, but each pass holds one slice of it.
    auto slice = current_.begin();
    while (row >= (*slice)->batch.rows && std::next(slice) != current_.end()) {
      row -= (*slice++)->batch.rows;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<int64_t> below_cut, LayersBelowCut(layers));
    std::vector<std::vector<float>> gradients;
    if (layers_ != nullptr) {
      SPLITVEIL_ASSIGN_OR_RETURN(gradients, layers_->BackwardRow((*slice)->pass, row, clean_gradient, below_cut));
    } else if (row < 0 || row >= (*slice)->batch.rows) {
      return absl::InvalidArgumentError(absl::StrCat("row: expected a row of the batch, found ", row));
    } else {
      SPLITVEIL_RETURN_IF_ERROR(CheckGradient(1, (*slice)->output.cols(),
                                              {clean_gradient.data(), 1, static_cast<int64_t>(clean_gradient.size())}));
    }
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
    if (current_.empty() && exchange_ == nullptr) {
      return absl::FailedPreconditionError("bottom model: expected a Backward since the last Update, found none");
    }
    // Taken first: after an error the batch is dropped, and the next Backward starts a new one.
    const std::vector<std::unique_ptr<PendingSlice>> learnt = std::move(current_);
    current_.clear();
    std::vector<LookupGradient> at_input;
    int64_t rows = 0;
    for (const std::unique_ptr<PendingSlice>& slice : learnt) {
      rows += slice->batch.rows;
      slice->pass = LayerPass();  // The parameters are free to change where they lie.
      at_input.push_back({slice->batch.categories, slice->at_input()});
    }
    if (exchange_ != nullptr) {
      SPLITVEIL_RETURN_IF_ERROR(exchange_->Share(rows, layers_.get(), input_->has_embedding(), at_input));
    }
    if (layers_ != nullptr) {
      SPLITVEIL_RETURN_IF_ERROR(LayerStack::Update({layers_.get()}));
    }
    SPLITVEIL_RETURN_IF_ERROR(input_->Update(at_input));
    ++steps_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView> cut_gradients) override {
    const size_t m = cut_gradients.size();
    std::vector<std::vector<double>> dense(m);  // Of each objective, at the layers.
    std::deque<Matrix> inputs;                  // At the input, slice by slice.
    std::vector<std::vector<LookupGradient>> at_embedding(m);
    for (size_t i = 0; i < m; ++i) {
      SPLITVEIL_RETURN_IF_ERROR(CheckWholeBatch(cut_gradients[i]));
      int64_t first = 0;
      for (const std::unique_ptr<PendingSlice>& slice : current_) {
        ConstMatrixView at_input = cut_gradients[i].block(first, slice->batch.rows);
        if (layers_ != nullptr) {
          SPLITVEIL_ASSIGN_OR_RETURN(LayerStack::ObjectiveGradient gradient,
                                     layers_->GradientOf(slice->pass, at_input));
          // The sum over the slices is in double: products of many small gradients are what decides.
          dense[i].resize(gradient.parameters.size());
          std::transform(dense[i].begin(), dense[i].end(), gradient.parameters.begin(), dense[i].begin(),
                         std::plus<>());
          // In a deque, whose elements stay where they are: at_embedding holds views of them.
          at_input = inputs.emplace_back(std::move(gradient.input));
        }
        at_embedding[i].push_back({slice->batch.categories, at_input});
        first += slice->batch.rows;
      }
    }
    // The embeddings' part is summed sparsely, over the rows that occur; the layers' part densely.
    std::vector<double> products = input_->GradientProducts(at_embedding);
    // The parameters' gradients are of the mean over the batch; those above are sums.
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
      const ConstMatrixView own = cut_gradient.block(first, slice->batch.rows);
      // Computed as if it were alone and then added: the utility's gradient has been back-propagated already.
      Matrix at_input(own);
      if (layers_ != nullptr) {
        SPLITVEIL_ASSIGN_OR_RETURN(at_input, layers_->AddGradient(slice->pass, own));
      }
      // Empty if the input has no embedding: nothing learns there.
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
    // Averages of other weights would be wrong: they restart from these.
    SPLITVEIL_RETURN_IF_ERROR(AssignParameters(parameters, Views(ParameterUse::kTraining)));
    input_->RestartAverage();
    if (layers_ != nullptr) {
      layers_->RestartAverage();
    }
    return absl::OkStatus();
  }

  NamedParameters TrainingState() const override { return CopyTrainingState(StateViews(), steps_); }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(steps_, AssignTrainingState(state, StateViews()));
    input_->set_steps(steps_);
    if (layers_ != nullptr) {
      layers_->set_steps(steps_);
    }
    return absl::OkStatus();
  }

  absl::Status ExportTo(const std::string& folder) const override {
    HalfScript script({}, &features_);
    script.Assemble("x", *input_, "");
    if (layers_ != nullptr) {
      script.Apply("x", *layers_);
    }
    return ExportHalf(script, "x", {folder, "nonlabel_party"});
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
    return CheckGradient(rows, current_.front()->output.cols(), cut_gradient);
  }

  std::vector<ParameterView> Views(ParameterUse use) const {
    return layers_ == nullptr ? input_->parameters("", use)
                              : Joined({input_->parameters("", use), layers_->parameters("", use)});
  }

  std::vector<ParameterView> StateViews() const {
    const std::vector<ParameterView> views = Joined({Views(ParameterUse::kTraining), input_->optimizer_state("")});
    return layers_ == nullptr ? views : Joined({views, layers_->optimizer_state("")});
  }

  FeatureShape features_;
  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<LayerStack> layers_;
  std::vector<std::string> layer_names_;
  GradientExchange* exchange_;  // Null: it trains alone.
  int64_t steps_ = 0;           // Of the optimiser.
  std::deque<std::unique_ptr<PendingSlice>> pending_;
  std::vector<std::unique_ptr<PendingSlice>> current_;  // Between Backward and Update.
};

// Checks a bottom half without layers before its tables are made, which may take gigabytes.
absl::Status CheckWithoutLayers(const BottomModelOptions& options) {
  const FeatureShape& features = options.features;
  if (features.categorical == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kField,
        ".layers: a bottom model without categories to embed needs at least one, as it would send the features "
        "as they are"));
  }
  const int64_t dimension = options.spec.embedding().dimension();
  const int64_t numbers = features.numeric * options.spec.numeric_pieces();
  const int64_t width = features.categorical * dimension + numbers;
  if (options.spec.has_embedding() && width != options.cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cut_width: expected ", width, ", the ", features.categorical, " embeddings of ", dimension, " and ", numbers,
        " inputs from numeric columns of a bottom model without layers, found ", options.cut_width));
  }
  return absl::OkStatus();
}

// `options.spec` is a bottom half.
absl::StatusOr<std::unique_ptr<BottomModel>> CreateLayered(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(options.optimizer));
  // The embeddings start alike wherever the model is cut.
  std::mt19937_64 seeds(options.seed);
  const v1::Embedding* const embedding = options.spec.has_embedding() ? &options.spec.embedding() : nullptr;
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::unique_ptr<InputLayer> input,
      InputLayer::Create({kField, options.features, embedding, optimizer, seeds(), options.spec.numeric_pieces()}));
  std::unique_ptr<LayerStack> layers;
  if (options.spec.layers_size() == 0) {
    // Allowed, but the operator must know what the peer sees.
    LogWarning("the model is cut behind its embeddings: the label party gets ", options.features.numeric,
               " numeric columns as they are, and sees which examples share a category");
  } else {
    LayerStack::Options stack;
    SPLITVEIL_ASSIGN_OR_RETURN(stack.chain, ChainOf(options, input->width()));
    stack.optimizer = optimizer;
    stack.seed = seeds();
    stack.input_gradient = input->has_embedding();
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<PlannedLayer> plan, PlanLayers(stack.chain));
    SPLITVEIL_RETURN_IF_ERROR(CheckCutWidth(plan, options.cut_width));
    SPLITVEIL_ASSIGN_OR_RETURN(layers, LayerStack::Create(stack));
  }
  return std::make_unique<LayeredBottomModel>(options.features, std::move(input), std::move(layers),
                                              AuditedNames(options.spec), options.exchange);
}

// `options`, with the bottom half as its specification.
absl::StatusOr<BottomModelOptions> Resolve(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(v1::ModelSpec half, BottomHalf(options.spec, options.cut_layer));
  BottomModelOptions resolved = options;
  resolved.spec = std::move(half);
  return resolved;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> BottomModel::Create(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const BottomModelOptions resolved, Resolve(options));
  if (!resolved.spec.torchscript_path().empty()) {
    return CreateTorchScriptBottomModel(resolved);
  }
  if (resolved.spec.layers_size() == 0) {
    SPLITVEIL_RETURN_IF_ERROR(CheckWithoutLayers(resolved));
  }
  return CreateLayered(resolved);
}

absl::StatusOr<std::vector<std::string>> BottomModel::Check(const BottomModelOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const BottomModelOptions resolved, Resolve(options));
  if (!resolved.spec.torchscript_path().empty()) {
    return CheckTorchScriptBottomModel(resolved);
  }
  if (resolved.spec.layers_size() == 0) {
    SPLITVEIL_RETURN_IF_ERROR(CheckWithoutLayers(resolved));
  }
  return AuditedNames(resolved.spec);
}

}  // namespace splitveil
