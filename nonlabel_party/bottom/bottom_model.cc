#include "nonlabel_party/bottom/bottom_model.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/model/adam_options.h"
#include "common/model/dense_stack.h"
#include "common/model/input_layer.h"

namespace splitveil {
namespace {

constexpr char kCut[] = "cut";
constexpr char kField[] = "bottom_model";

Matrix Copy(ConstMatrixView view) {
  Matrix copy(view.rows(), view.cols());
  std::copy(view.values().begin(), view.values().end(), copy.data());
  return copy;
}

absl::Status CheckLayers(const v1::ModelSpec& spec, int64_t cut_width) {
  for (int l = 0; l + 1 < spec.layers_size(); ++l) {
    if (spec.layers(l).name() == kCut) {
      return absl::InvalidArgumentError(
          absl::StrCat(kField, ".layers[", l, "].name: \"cut\" is reserved for the last layer's output"));
    }
  }
  if (spec.layers_size() > 0 && spec.layers().rbegin()->units() != cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(kField, ".layers[", spec.layers_size() - 1, "].units: expected ",
                                                   cut_width, ", the agreed cut width, found ",
                                                   spec.layers().rbegin()->units()));
  }
  return absl::OkStatus();
}

// A batch between its Forward and the Update that learns from it. It stays where it is made: `pass` reads `batch` or
// `input`.
struct PendingBatch {
  FeatureBatch batch;
  Matrix input;
  DensePass pass;
  Matrix input_gradient;
};

class EmbeddingBottomModel final : public BottomModel {
 public:
  EmbeddingBottomModel(std::unique_ptr<InputLayer> input, std::unique_ptr<DenseStack> dense,
                       std::vector<std::string> layer_names)
      : input_(std::move(input)), dense_(std::move(dense)), layer_names_(std::move(layer_names)) {}

  absl::StatusOr<Matrix> Forward(FeatureBatch batch) override {
    auto pending = std::make_unique<PendingBatch>();
    pending->batch = std::move(batch);
    const absl::StatusOr<ConstMatrixView> input = input_->Assemble(pending->batch, pending->input);
    if (!input.ok()) {
      return input.status();
    }
    absl::StatusOr<DensePass> pass = dense_->Forward(*input);
    if (!pass.ok()) {
      return pass.status();
    }
    pending->pass = *std::move(pass);
    Matrix activations = Copy(pending->pass.output());
    pending_.push_back(std::move(pending));
    return activations;
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix storage;
    const absl::StatusOr<ConstMatrixView> input = input_->Assemble(batch, storage);
    if (!input.ok()) {
      return input.status();
    }
    return dense_->Predict(*input);
  }

  absl::StatusOr<std::vector<LayerGradient>> Backward(ConstMatrixView cut_gradient,
                                                      absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    const absl::StatusOr<std::vector<int64_t>> below_cut = LayersBelowCut(layers);
    if (!below_cut.ok()) {
      return below_cut.status();
    }
    absl::StatusOr<DenseGradients> gradients = dense_->Backward(pending_.front()->pass, cut_gradient, *below_cut);
    if (!gradients.ok()) {
      return gradients.status();
    }
    current_ = std::move(pending_.front());
    pending_.pop_front();
    current_->input_gradient = std::move(gradients->input);

    std::vector<LayerGradient> result;
    size_t next = 0;
    for (const std::string& layer : layers) {
      result.push_back({layer, layer == kCut ? Copy(cut_gradient) : std::move(gradients->outputs[next++])});
    }
    return result;
  }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    if (current_ == nullptr) {
      return absl::FailedPreconditionError("bottom model: expected a hint between Backward and Update");
    }
    const absl::StatusOr<std::vector<int64_t>> below_cut = LayersBelowCut(layers);
    if (!below_cut.ok()) {
      return below_cut.status();
    }
    absl::StatusOr<std::vector<std::vector<float>>> gradients =
        dense_->BackwardRow(current_->pass, row, clean_gradient, *below_cut);
    if (!gradients.ok()) {
      return gradients.status();
    }
    std::vector<std::vector<float>> result;
    size_t next = 0;
    for (const std::string& layer : layers) {
      result.push_back(layer == kCut ? std::vector<float>(clean_gradient.begin(), clean_gradient.end())
                                     : std::move((*gradients)[next++]));
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
    if (absl::Status status = dense_->Update(); !status.ok()) {
      return status;
    }
    const absl::Status status = input_->Update(current_->batch.categories, current_->input_gradient);
    current_.reset();
    return status;
  }

  std::vector<std::string> layer_names() const override { return layer_names_; }

  NamedParameters Parameters() const override { return CopyParameters(Views()); }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    return AssignParameters(parameters, Views());
  }

 private:
  // Indices of `layers` for the dense stack, without those that mean the cut layer itself.
  absl::StatusOr<std::vector<int64_t>> LayersBelowCut(absl::Span<const std::string> layers) const {
    std::vector<int64_t> indices;
    for (const std::string& layer : layers) {
      const auto found = std::find(layer_names_.begin(), layer_names_.end(), layer);
      if (found == layer_names_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("layer: expected one of ", absl::StrJoin(layer_names_, ", "), ", found \"", layer, "\""));
      }
      if (layer != kCut) {
        indices.push_back(found - layer_names_.begin());
      }
    }
    return indices;
  }

  std::vector<ParameterView> Views() const {
    std::vector<ParameterView> views = input_->parameters("");
    for (ParameterView& view : dense_->parameters("")) {
      views.push_back(std::move(view));
    }
    return views;
  }

  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<DenseStack> dense_;
  std::vector<std::string> layer_names_;
  std::deque<std::unique_ptr<PendingBatch>> pending_;
  std::unique_ptr<PendingBatch> current_;  // Between Backward and Update.
};

}  // namespace

absl::StatusOr<std::unique_ptr<BottomModel>> BottomModel::Create(const BottomModelOptions& options) {
  const absl::StatusOr<AdamOptions> adam = ReadAdamOptions(options.optimizer);
  if (!adam.ok()) {
    return adam.status();
  }
  if (absl::Status status = CheckLayers(options.spec, options.cut_width); !status.ok()) {
    return status;
  }
  std::mt19937_64 seeds(options.seed);

  InputLayer::Options input_options;
  input_options.field = kField;
  input_options.features = options.features;
  input_options.embedding = options.spec.has_embedding() ? &options.spec.embedding() : nullptr;
  input_options.adam = *adam;
  input_options.seed = seeds();
  absl::StatusOr<std::unique_ptr<InputLayer>> input = InputLayer::Create(input_options);
  if (!input.ok()) {
    return input.status();
  }

  DenseStack::Options dense_options;
  dense_options.field = kField;
  dense_options.input_width = (*input)->width();
  dense_options.layers.assign(options.spec.layers().begin(), options.spec.layers().end());
  dense_options.adam = *adam;
  dense_options.seed = seeds();
  dense_options.input_gradient = (*input)->has_embedding();
  absl::StatusOr<std::unique_ptr<DenseStack>> dense = DenseStack::Create(dense_options);
  if (!dense.ok()) {
    return dense.status();
  }

  std::vector<std::string> layer_names;
  for (const v1::Layer& layer : options.spec.layers()) {
    layer_names.push_back(layer.name());
  }
  layer_names.back() = kCut;
  return std::make_unique<EmbeddingBottomModel>(*std::move(input), *std::move(dense), std::move(layer_names));
}

}  // namespace splitveil
