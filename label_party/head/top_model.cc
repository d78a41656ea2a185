#include "label_party/head/top_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/model/adam_options.h"
#include "common/model/dense_stack.h"
#include "label_party/head/wide_part.h"

namespace splitveil {
namespace {

constexpr char kField[] = "top_model";
constexpr char kLogit[] = "logit";

absl::Status CheckSpec(const TopModelOptions& options) {
  if (options.cut_width < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cut width: expected at least 1, found ", options.cut_width));
  }
  for (int l = 0; l < options.spec.layers_size(); ++l) {
    const std::string& name = options.spec.layers(l).name();
    if (name == "cut" || name == kLogit || name == "wide") {
      return absl::InvalidArgumentError(absl::StrCat(kField, ".layers[", l, "].name: \"", name, "\" is reserved"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(absl::Span<const uint8_t> labels, int64_t rows) {
  if (static_cast<int64_t>(labels.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat("labels: expected ", rows, ", found ", labels.size()));
  }
  for (const uint8_t label : labels) {
    if (label > 1) {
      return absl::InvalidArgumentError("labels: expected 0 or 1, found another value");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(absl::Span<const float> targets, int64_t rows) {
  if (!targets.empty() && static_cast<int64_t>(targets.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat("targets: expected ", rows, ", found ", targets.size()));
  }
  if (!std::all_of(targets.begin(), targets.end(), [](float target) { return std::isfinite(target); })) {
    return absl::InvalidArgumentError("targets: expected finite numbers, found another value");
  }
  return absl::OkStatus();
}

// Mean over the batch of -log p(label | logit). `gradient` [batch, 1] becomes the derivative of each example's own loss
// with its target for label: p - target, the log-loss being linear in the label.
double BinaryCrossEntropy(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                          absl::Span<const float> targets, Matrix& gradient) {
  double sum = 0;
  for (size_t j = 0; j < logits.size(); ++j) {
    const double logit = logits[j];
    const double tail = std::exp(-std::abs(logit));  // In (0, 1]: neither branch overflows.
    sum += std::max(logit, 0.0) - logit * labels[j] + std::log1p(tail);
    const double probability = (logit >= 0 ? 1.0 : tail) / (1.0 + tail);
    gradient.data()[j] = static_cast<float>(probability - (targets.empty() ? labels[j] : targets[j]));
  }
  return sum / static_cast<double>(logits.size());
}

class WideAndDeepTopModel final : public TopModel {
 public:
  // `wide` may be null.
  WideAndDeepTopModel(std::unique_ptr<DenseStack> deep, std::unique_ptr<WidePart> wide)
      : deep_(std::move(deep)), wide_(std::move(wide)) {}

  absl::StatusOr<HeadStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                           absl::Span<const uint8_t> labels, absl::Span<const float> targets) override {
    const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
    has_gradients_ = false;
    if (absl::Status status = CheckRows(activations, own); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckLabels(labels, activations.rows()); !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckTargets(targets, activations.rows()); !status.ok()) {
      return status;
    }
    absl::StatusOr<DensePass> deep = deep_->Forward(activations);
    if (!deep.ok()) {
      return deep.status();
    }
    const absl::Span<const float> deep_logits = deep->output().values();
    std::vector<float> logits(deep_logits.begin(), deep_logits.end());
    Matrix wide_input;
    absl::StatusOr<DensePass> wide = DensePass();
    if (wide_ != nullptr) {
      wide = wide_->Forward(own, wide_input);
      if (!wide.ok()) {
        return wide.status();
      }
      Add(wide->output(), logits);
    }

    HeadStep step;
    Matrix logit_gradient(activations.rows(), 1);
    step.mean_loss = BinaryCrossEntropy(logits, labels, targets, logit_gradient);
    if (!std::isfinite(step.mean_loss)) {
      return absl::InternalError("mean loss: expected a finite number: the training has diverged");
    }
    step.forward_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    absl::StatusOr<DenseGradients> gradients = deep_->Backward(*deep, logit_gradient, {});
    if (!gradients.ok()) {
      return gradients.status();
    }
    if (wide_ != nullptr) {
      if (absl::Status status = wide_->Backward(*wide, own, logit_gradient); !status.ok()) {
        return status;
      }
    }
    step.cut_gradient = std::move(gradients->input);
    has_gradients_ = true;
    return step;
  }

  absl::Status Update() override {
    if (!has_gradients_) {
      return absl::FailedPreconditionError("top model: expected a ForwardBackward since the last Update, found none");
    }
    has_gradients_ = false;
    if (absl::Status status = deep_->Update(); !status.ok()) {
      return status;
    }
    return wide_ == nullptr ? absl::OkStatus() : wide_->Update();
  }

  absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) override {
    if (absl::Status status = CheckRows(activations, own); !status.ok()) {
      return status;
    }
    const absl::StatusOr<Matrix> deep = deep_->Predict(activations);
    if (!deep.ok()) {
      return deep.status();
    }
    std::vector<float> logits(deep->data(), deep->data() + deep->size());
    if (wide_ != nullptr) {
      const absl::StatusOr<Matrix> wide = wide_->Predict(own);
      if (!wide.ok()) {
        return wide.status();
      }
      Add(*wide, logits);
    }
    return logits;
  }

  NamedParameters Parameters() const override { return CopyParameters(Views()); }

  absl::Status SetParameters(const NamedParameters& parameters) override {
    return AssignParameters(parameters, Views());
  }

 private:
  absl::Status CheckRows(ConstMatrixView activations, const FeatureBatch& own) const {
    if (wide_ != nullptr && own.rows != activations.rows()) {
      return absl::InvalidArgumentError(
          absl::StrCat("own features: expected ", activations.rows(), " rows, found ", own.rows));
    }
    return absl::OkStatus();
  }

  static void Add(ConstMatrixView terms, std::vector<float>& logits) {
    for (size_t j = 0; j < logits.size(); ++j) {
      logits[j] += terms.data()[j];
    }
  }

  std::vector<ParameterView> Views() const {
    std::vector<ParameterView> views = deep_->parameters("");
    if (wide_ != nullptr) {
      for (ParameterView& view : wide_->parameters()) {
        views.push_back(std::move(view));
      }
    }
    return views;
  }

  std::unique_ptr<DenseStack> deep_;
  std::unique_ptr<WidePart> wide_;
  bool has_gradients_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TopModel>> TopModel::Create(const TopModelOptions& options) {
  const absl::StatusOr<AdamOptions> adam = ReadAdamOptions(options.optimizer);
  if (!adam.ok()) {
    return adam.status();
  }
  if (absl::Status status = CheckSpec(options); !status.ok()) {
    return status;
  }
  std::mt19937_64 seeds(options.seed);

  DenseStack::Options deep_options;
  deep_options.field = kField;
  deep_options.input_width = options.cut_width;
  deep_options.layers.assign(options.spec.layers().begin(), options.spec.layers().end());
  deep_options.layers.emplace_back();
  deep_options.layers.back().set_name(kLogit);
  deep_options.layers.back().set_units(1);
  deep_options.layers.back().set_activation(v1::LINEAR);
  deep_options.adam = *adam;
  deep_options.seed = seeds();
  deep_options.input_gradient = true;
  absl::StatusOr<std::unique_ptr<DenseStack>> deep = DenseStack::Create(deep_options);
  if (!deep.ok()) {
    return deep.status();
  }

  std::unique_ptr<WidePart> wide;
  if (options.spec.has_wide()) {
    absl::StatusOr<std::unique_ptr<WidePart>> created =
        WidePart::Create(options.spec.wide(), options.features, *adam, seeds());
    if (!created.ok()) {
      return created.status();
    }
    wide = *std::move(created);
  }
  return std::make_unique<WideAndDeepTopModel>(*std::move(deep), std::move(wide));
}

}  // namespace splitveil
