#include "nonlabel_party/bottom/embedding_bottom_model.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/model/input_layer.h"
#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/bottom/bottom_export.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model";

absl::Status CheckGradient(int64_t rows, int64_t cols, ConstMatrixView gradient) {
  if (gradient.rows() != rows || gradient.cols() != cols) {
    return absl::InvalidArgumentError(absl::StrCat("output gradient: expected ", rows, " x ", cols, ", found ",
                                                   gradient.rows(), " x ", gradient.cols()));
  }
  return absl::OkStatus();
}

// "cut" is all there is.
absl::Status CheckNames(absl::Span<const std::string> layers) {
  for (const std::string& layer : layers) {
    if (layer != kCutName) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer: expected ", kCutName, ", as the bottom model has no layers of its own, found \"", layer, "\""));
    }
  }
  return absl::OkStatus();
}

// A slice of a batch between its Forward and the Update that learns from it.
struct PendingSlice {
  FeatureBatch batch;
  Matrix activations;
  Matrix gradient;  // A copy: what Backward was given may be gone by the Update.
};

class EmbeddingBottomModel final : public BottomModel {
 public:
  EmbeddingBottomModel(const FeatureShape& features, std::unique_ptr<InputLayer> input)
      : features_(features), input_(std::move(input)) {}

  bool needs_whole_batch() const override { return false; }

  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override {
    auto pending = std::make_unique<PendingSlice>();
    pending->batch = std::move(batch);
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations,
                               input_->Assemble(pending->batch, ParameterUse::kTraining, pending->activations));
    pending_.push_back(std::move(pending));
    return activations;
  }

  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override {
    Matrix activations;
    SPLITVEIL_RETURN_IF_ERROR(input_->Assemble(batch, ParameterUse::kPrediction, activations).status());
    return activations;
  }

  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override {
    if (pending_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a pending forward, found none");
    }
    SPLITVEIL_RETURN_IF_ERROR(CheckNames(layers));
    SPLITVEIL_RETURN_IF_ERROR(CheckGradient(pending_.front()->batch.rows, input_->width(), cut_gradient));
    current_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    current_.back()->gradient = Matrix(cut_gradient);
    return std::vector<ConstMatrixView>(layers.size(), cut_gradient);
  }

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row, absl::Span<const float> clean_gradient,
                                                                    absl::Span<const std::string> layers) override {
    if (current_.empty()) {
      return absl::FailedPreconditionError("bottom model: expected a hint between Backward and Update");
    }
    const int64_t rows = CurrentRows();
    if (row < 0 || row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("row: expected 0 to ", rows - 1, ", found ", row));
    }
    SPLITVEIL_RETURN_IF_ERROR(CheckNames(layers));
    SPLITVEIL_RETURN_IF_ERROR(
        CheckGradient(1, input_->width(), {clean_gradient.data(), 1, static_cast<int64_t>(clean_gradient.size())}));
    return std::vector<std::vector<float>>(layers.size(), {clean_gradient.begin(), clean_gradient.end()});
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
      at_input.push_back({slice->batch.categories, slice->gradient});
    }
    SPLITVEIL_RETURN_IF_ERROR(input_->Update(at_input));
    ++steps_;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView> cut_gradients) override {
    std::vector<std::vector<LookupGradient>> objectives;
    for (const ConstMatrixView& gradient : cut_gradients) {
      SPLITVEIL_RETURN_IF_ERROR(CheckGradient(CurrentRows(), input_->width(), gradient));
      std::vector<LookupGradient>& parts = objectives.emplace_back();
      int64_t first = 0;
      for (const std::unique_ptr<PendingSlice>& slice : current_) {
        parts.push_back({slice->batch.categories, gradient.block(first, slice->batch.rows)});
        first += slice->batch.rows;
      }
    }
    return input_->GradientProducts(objectives);
  }

  absl::Status AddGradient(ConstMatrixView cut_gradient) override {
    SPLITVEIL_RETURN_IF_ERROR(CheckGradient(CurrentRows(), input_->width(), cut_gradient));
    const float* more = cut_gradient.data();
    for (const std::unique_ptr<PendingSlice>& slice : current_) {
      float* const values = slice->gradient.data();
      std::transform(values, values + slice->gradient.size(), more, values, std::plus<>());
      more += slice->gradient.size();
    }
    return absl::OkStatus();
  }

  std::vector<std::string> layer_names() const override { return {kCutName}; }

  NamedParameters Parameters() const override {
    return CopyParameters(input_->parameters("", ParameterUse::kPrediction));
  }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    SPLITVEIL_RETURN_IF_ERROR(AssignParameters(parameters, input_->parameters("")));
    input_->RestartAverage();
    return absl::OkStatus();
  }

  NamedParameters TrainingState() const override { return CopyTrainingState(StateViews(), steps_); }

  absl::Status SetTrainingState(const NamedParameters& state) override {
    SPLITVEIL_ASSIGN_OR_RETURN(steps_, AssignTrainingState(state, StateViews()));
    input_->set_steps(steps_);
    return absl::OkStatus();
  }

  absl::Status ExportTo(const std::string& folder) const override {
    return ExportBottomModel(features_, *input_, /*layers=*/nullptr, folder);
  }

 private:
  // Of the Backwards since the last Update.
  int64_t CurrentRows() const {
    int64_t rows = 0;
    for (const std::unique_ptr<PendingSlice>& slice : current_) {
      rows += slice->batch.rows;
    }
    return rows;
  }

  std::vector<ParameterView> StateViews() const {
    return Joined({input_->parameters(""), input_->optimizer_state("")});
  }

  FeatureShape features_;
  std::unique_ptr<InputLayer> input_;
  int64_t steps_ = 0;  // Of the optimiser.
  std::deque<std::unique_ptr<PendingSlice>> pending_;
  std::vector<std::unique_ptr<PendingSlice>> current_;  // Between Backward and Update.
};

}  // namespace

absl::Status CheckEmbeddingBottomModel(const BottomModelOptions& options) {
  const FeatureShape& features = options.features;
  if (features.categorical == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kField,
                     ".layers: expected at least one, as without categories to embed features would leave as they are, "
                     "found none"));
  }
  const int64_t dimension = options.spec.embedding().dimension();
  const int64_t width = features.categorical * dimension + features.numeric;
  if (options.spec.has_embedding() && width != options.cut_width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cut_width: expected ", width, ", the ", features.categorical, " embeddings of ", dimension, " and ",
        features.numeric, " numeric columns of a bottom model without layers, found ", options.cut_width));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BottomModel>> CreateEmbeddingBottomModel(const BottomModelOptions& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckEmbeddingBottomModel(options));
  InputLayer::Options input_options;
  SPLITVEIL_ASSIGN_OR_RETURN(input_options.optimizer, ReadOptimizerOptions(options.optimizer));
  input_options.field = kField;
  input_options.features = options.features;
  input_options.embedding = options.spec.has_embedding() ? &options.spec.embedding() : nullptr;
  // The embeddings start as those of a model that is cut further up.
  input_options.seed = std::mt19937_64(options.seed)();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<InputLayer> input, InputLayer::Create(input_options));
  // Nobody should learn that from the peer.
  LogWarning("the model is cut behind its embeddings: the label party gets ", options.features.numeric,
             " numeric columns as they are, and sees which examples share a category");
  return std::make_unique<EmbeddingBottomModel>(options.features, std::move(input));
}

}  // namespace splitveil
