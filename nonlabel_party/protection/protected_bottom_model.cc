#include "nonlabel_party/protection/protected_bottom_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/protection/privacy_objective.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

// Adds `weight` times `values` to `sum`, of the same shape.
void AddScaled(double weight, ConstMatrixView values, Matrix& sum) {
  const auto factor = static_cast<float>(weight);
  std::transform(values.data(), values.data() + values.size(), sum.data(), sum.data(),
                 [factor](float value, float so_far) { return so_far + factor * value; });
}

// The derivative of a batch's loss, times the rows: models take per-example gradients and step along their mean.
Matrix PerExample(const ActivationLoss& loss) {
  Matrix gradient(loss.gradient.rows(), loss.gradient.cols());
  AddScaled(static_cast<double>(loss.gradient.rows()), loss.gradient, gradient);
  return gradient;
}

// Pareto has none: it finds new weights in each step.
double FixedWeight(const ActivationProtection& protection) {
  switch (protection.method_case()) {
    case ActivationProtection::kLinear:
      return protection.linear().lambda();
    case ActivationProtection::kAdversarial:
      return protection.adversarial().omega();
    case ActivationProtection::kAdversarialLabelFlip:
      return protection.adversarial_label_flip().omega();
    case ActivationProtection::kInfocensor:
      return protection.infocensor().lambda();
    default:
      return 0;
  }
}

// One column of a batch's attributes.
std::vector<uint8_t> ColumnOf(const FeatureBatch& batch, size_t column) {
  std::vector<uint8_t> numbers;
  const size_t columns = batch.attributes.size() / static_cast<size_t>(batch.rows);
  for (size_t at = column; at < batch.attributes.size(); at += columns) {
    numbers.push_back(batch.attributes[at]);
  }
  return numbers;
}

}  // namespace

BottomModelOptions BottomOptions(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config,
                                 const Dataset& data) {
  BottomModelOptions options;
  options.spec = config.model();
  options.cut_layer = agreement.cut_layer();
  options.optimizer = config.party().optimizer();
  options.features = data.features();
  options.cut_width = agreement.cut_width();
  // Never shared: weights drawn from a joint seed would be known to the peer.
  options.seed = WeightSeed(SeedRole::kNonLabelParty, config.party().reproducible_seed());
  return options;
}

absl::StatusOr<std::unique_ptr<ProtectedBottomModel>> ProtectedBottomModel::Create(
    BottomModel* model, const ActivationProtection& protection, std::vector<ProtectedAttribute> attributes,
    int64_t cut_width, uint64_t seed) {
  std::unique_ptr<ProtectedBottomModel> result(new ProtectedBottomModel(model, protection, std::move(attributes)));
  SPLITVEIL_ASSIGN_OR_RETURN(result->noise_, ActivationNoise::Create(protection.noise_sigma(), protection.clip_norm()));
  // A seed for each, or all simulated adversaries would start alike.
  for (const ProtectedAttribute& attribute : result->attributes_) {
    SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<PrivacyObjective> objective,
                               CreateObjective(protection, cut_width, attribute.values, ++seed));
    result->objectives_.push_back(std::move(objective));
  }
  return result;
}

void ProtectedBottomModel::Restore(const std::vector<NamedParameters>& states) {
  for (size_t i = 0; i < std::min(states.size(), objectives_.size()); ++i) {
    objectives_[i]
        ->SetTrainingState(states[i])
        .IgnoreError();  // It can fail only for another version, which LoadProgress has refused.
  }
}

absl::Status ProtectedBottomModel::ComputePrivacy(Pending& pending) {
  pending.privacy.clear();
  Matrix clipped = pending.activations;
  // Judged as it would be sent but for the noise, whose variance the loss takes into account itself.
  noise_->Clip(clipped);
  for (size_t i = 0; i < objectives_.size(); ++i) {
    const std::vector<uint8_t> numbers = ColumnOf(pending.features, attributes_[i].column);
    SPLITVEIL_ASSIGN_OR_RETURN(ActivationLoss loss,
                               objectives_[i]->Of(clipped, pending.sent.size() > 0 ? pending.sent : clipped,
                                                  {numbers, attributes_[i].values}));
    if (!std::isfinite(loss.value)) {  // NaN is above no threshold: it would pass the gate.
      return AsHalt(absl::ResourceExhaustedError(absl::StrCat("activation protection: no finite privacy loss of ",
                                                              attributes_[i].name, ": the batch is not sent")));
    }
    // The loss is of the clipped activations; the model learns from the gradient before the clipping.
    noise_->Backpropagate(pending.activations, loss.gradient);
    pending.privacy.push_back(std::move(loss));
  }
  return absl::OkStatus();
}

absl::Status ProtectedBottomModel::JudgePredicted(const FeatureBatch& batch, ConstMatrixView activations) {
  Pending judged;
  judged.features.rows = batch.rows;
  judged.features.attributes = batch.attributes;
  judged.activations = Matrix(activations);
  // A short last batch is judged together with the one before: alone its estimate shows little but its own size.
  Pending together = judged;
  if (batch.rows < judged_.activations.rows()) {
    together.features.rows += judged_.features.rows;
    together.features.attributes.insert(together.features.attributes.end(), judged_.features.attributes.begin(),
                                        judged_.features.attributes.end());
    together.activations = Matrix(together.features.rows, activations.cols());
    together.activations.SetBlock(0, activations);
    together.activations.SetBlock(batch.rows, judged_.activations);
  } else {
    judged_ = std::move(judged);
  }
  SPLITVEIL_RETURN_IF_ERROR(ComputePrivacy(together));
  predicted_.resize(objectives_.size());
  for (size_t i = 0; i < objectives_.size(); ++i) {
    predicted_[i].attribute = attributes_[i].name;
    predicted_[i].privacy_loss = std::max(predicted_[i].privacy_loss, together.privacy[i].value);
  }
  // What is evaluated is not trained on, so there is no step that could bring it below: the run ends.
  if (Largest(together) > Limit()) {
    return AsHalt(
        absl::ResourceExhaustedError(absl::StrCat("activation protection: privacy loss ", Largest(together),
                                                  " of a batch to evaluate is above the "
                                                  "threshold ",
                                                  protection_.pareto().threshold(), " and its slack: it is not sent")));
  }
  return absl::OkStatus();
}

double ProtectedBottomModel::Largest(const Pending& pending) {
  double largest = 0;
  for (const ActivationLoss& loss : pending.privacy) {
    largest = std::max(largest, loss.value);
  }
  return largest;
}

absl::Status ProtectedBottomModel::DescendPrivacy(const Pending& pending) {
  Matrix sum(pending.activations.rows(), pending.activations.cols());
  // Only what is above the threshold is lowered: the rest would cost utility for nothing.
  for (const ActivationLoss& loss : pending.privacy) {
    if (loss.value > protection_.pareto().threshold()) {
      AddScaled(1, PerExample(loss), sum);
    }
  }
  SPLITVEIL_RETURN_IF_ERROR(model_->Backward(sum, {}).status());
  return model_->Update();
}

absl::Status ProtectedBottomModel::Correct(Pending& pending) {
  const ActivationProtection::Pareto& pareto = protection_.pareto();
  while (Largest(pending) > Limit()) {
    if (latest_.correction_steps >= pareto.max_correction_steps()) {
      SPLITVEIL_RETURN_IF_ERROR(model_->Discard());
      return AsHalt(absl::ResourceExhaustedError(absl::StrCat("activation protection: privacy loss ", Largest(pending),
                                                              " of a batch is above the threshold ", pareto.threshold(),
                                                              " and its slack after ", latest_.correction_steps,
                                                              " steps on it alone: it is not sent")));
    }
    ++latest_.correction_steps;
    SPLITVEIL_RETURN_IF_ERROR(DescendPrivacy(pending));
    // The update has changed the model: the batch is computed again, and judged again.
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView again, model_->Forward(pending.features));
    pending.activations = Matrix(again);
    SPLITVEIL_RETURN_IF_ERROR(ComputePrivacy(pending));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ProtectedBottomModel::Pretrain(const std::function<FeatureBatch()>& next) {
  const ActivationProtection::Pareto& pareto = protection_.pareto();
  int64_t steps = 0;
  // Algorithm 1, lines 2 to 7: several in a row, since one batch may be below by chance.
  for (int below = 0; has_threshold() && below < kBelowInARow;) {
    Pending pending;
    pending.features = next();
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations, model_->Forward(pending.features));
    pending.activations = Matrix(activations);
    SPLITVEIL_RETURN_IF_ERROR(ComputePrivacy(pending));
    if (Largest(pending) <= pareto.threshold()) {
      ++below;
      SPLITVEIL_RETURN_IF_ERROR(model_->Discard());
      continue;
    }
    below = 0;
    if (++steps > pareto.max_pretraining_steps()) {
      SPLITVEIL_RETURN_IF_ERROR(model_->Discard());
      return AsHalt(absl::ResourceExhaustedError(
          absl::StrCat("activation protection: expected a privacy loss of at most ", pareto.threshold(), " after ",
                       pareto.max_pretraining_steps(), " steps before the training, found ", Largest(pending),
                       ": set a larger batch, threshold or noise_sigma, or a smaller cut_width")));
    }
    SPLITVEIL_RETURN_IF_ERROR(DescendPrivacy(pending));
  }
  return steps;
}

absl::StatusOr<ConstMatrixView> ProtectedBottomModel::Forward(FeatureBatch batch) {
  // Without a protection nothing is copied.
  if (noise_->is_identity() && objectives_.empty()) {
    return model_->Forward(std::move(batch));
  }
  auto pending = std::make_unique<Pending>();
  latest_ = ProtectionStep();
  judged_ = Pending();
  if (has_threshold()) {
    latest_.threshold = protection_.pareto().threshold();
  }
  if (!objectives_.empty()) {
    pending->features = batch;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations, model_->Forward(std::move(batch)));
  pending->activations = Matrix(activations);
  if (has_threshold()) {
    SPLITVEIL_RETURN_IF_ERROR(ComputePrivacy(*pending));
    SPLITVEIL_RETURN_IF_ERROR(Correct(*pending));
  }
  pending->sent = pending->activations;
  // After the gate: noise is drawn only for a batch that is sent.
  SPLITVEIL_RETURN_IF_ERROR(noise_->Apply(pending->sent));
  // Without a gate the objective reads what is sent: a simulated adversary learns from the noised activations.
  if (!has_threshold()) {
    SPLITVEIL_RETURN_IF_ERROR(ComputePrivacy(*pending));
  }
  for (size_t i = 0; i < objectives_.size(); ++i) {
    latest_.attributes.push_back({attributes_[i].name, pending->privacy[i].value, 0});
  }
  pending_.push_back(std::move(pending));
  return ConstMatrixView(pending_.back()->sent);
}

absl::StatusOr<std::vector<ConstMatrixView>> ProtectedBottomModel::Backward(ConstMatrixView cut_gradient,
                                                                            absl::Span<const std::string> layers) {
  if (noise_->is_identity() && objectives_.empty()) {
    return model_->Backward(cut_gradient, layers);
  }
  if (pending_.empty() || cut_gradient.rows() != pending_.front()->activations.rows() ||
      cut_gradient.cols() != pending_.front()->activations.cols()) {
    return absl::FailedPreconditionError("protected bottom model: expected a gradient of the oldest pending forward");
  }
  current_.push_back(std::move(pending_.front()));
  pending_.pop_front();
  Pending& batch = *current_.back();
  // A copy: the caller's gradient may be freed before Update, when the weights of both losses are known.
  batch.utility = Matrix(cut_gradient);
  noise_->Backpropagate(batch.activations, batch.utility);
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<ConstMatrixView> at_layers, model_->Backward(batch.utility, layers));
  // At the cut as received: back through the clipping they would show f(x), and what attacks make of them is sent.
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == "cut") {
      batch.received = Matrix(cut_gradient);
      at_layers[i] = batch.received;
    }
  }
  return at_layers;
}

absl::Status ProtectedBottomModel::Discard() {
  if (!pending_.empty()) {
    pending_.pop_front();
  }
  return model_->Discard();
}

absl::StatusOr<std::vector<double>> ProtectedBottomModel::Weights(const Pending& pending) {
  if (!has_threshold()) {
    std::vector<double> weights(1 + objectives_.size(), FixedWeight(protection_));
    weights[0] = 1;
    return weights;
  }
  // Equations 11 and 12 need the losses and the inner products of their gradients, and nothing else of the model.
  Objectives objectives;
  objectives.losses.push_back(kUtilityLoss);
  objectives.at_threshold.push_back(false);
  std::vector<Matrix> owned;
  std::vector<ConstMatrixView> gradients = {pending.utility};
  for (const ActivationLoss& loss : pending.privacy) {
    objectives.losses.push_back(std::max(loss.value, 0.0));  // Equation 11 takes losses that are not negative.
    objectives.at_threshold.push_back(loss.value > protection_.pareto().threshold());
    owned.push_back(PerExample(loss));
  }
  gradients.insert(gradients.end(), owned.begin(), owned.end());
  SPLITVEIL_ASSIGN_OR_RETURN(objectives.products, model_->GradientProducts(gradients));
  ParetoDirection direction = FindParetoDirection(objectives, protection_.pareto().stationarity());
  latest_.at_front = direction.at_front;
  return std::move(direction.weights);
}

absl::Status ProtectedBottomModel::Update() {
  const std::vector<std::unique_ptr<Pending>> learnt = std::move(current_);
  current_.clear();
  if (objectives_.empty()) {
    return model_->Update();
  }
  if (learnt.size() != 1) {
    // A privacy loss is an estimate of a whole batch: slices of it have none.
    return absl::FailedPreconditionError("protected bottom model: expected one whole batch since the last Update");
  }
  // Weights of the losses are known only now, when both gradients are.
  const Pending& batch = *learnt.front();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> weights, Weights(batch));
  // Backward has given the model the utility's gradient with weight 1, so only the difference is added.
  Matrix added(batch.utility.rows(), batch.utility.cols());
  AddScaled(weights[0] - 1, batch.utility, added);
  latest_.utility_weight = weights[0];
  latest_.attributes.clear();
  for (size_t i = 0; i < objectives_.size(); ++i) {
    AddScaled(weights[i + 1], PerExample(batch.privacy[i]), added);
    latest_.attributes.push_back({attributes_[i].name, batch.privacy[i].value, weights[i + 1]});
  }
  SPLITVEIL_RETURN_IF_ERROR(model_->AddGradient(added));
  return model_->Update();
}

absl::StatusOr<Matrix> ProtectedBottomModel::Predict(const FeatureBatch& batch) {
  SPLITVEIL_ASSIGN_OR_RETURN(Matrix activations, model_->Predict(batch));
  if (has_threshold()) {
    SPLITVEIL_RETURN_IF_ERROR(JudgePredicted(batch, activations));
  }
  SPLITVEIL_RETURN_IF_ERROR(noise_->Apply(activations));
  return activations;
}

}  // namespace splitveil
