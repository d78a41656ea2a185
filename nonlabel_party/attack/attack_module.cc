#include "nonlabel_party/attack/attack_module.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/leakage/linear_algebra.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"
#include "common/status/status_macros.h"

namespace splitveil {
AttackModule::AttackModule(const v1::AuditAgreement& audit, int64_t examples)
    : sample_(examples), agreed_(AgreedScores(audit)) {
  for (const AgreedScore& score : agreed_) {
    const AttackTraits traits = TraitsOf(score.attack.attack);
    remembers_ = remembers_ || traits.cumulative() || traits.learns();
    needs_activations_ = needs_activations_ || traits.needs_activations();
    needs_oracle_ = needs_oracle_ || traits.needs_oracle();
    // One adversary a layer: what it remembers of earlier epochs is of that layer's gradients.
    adversaries_.try_emplace(score.layer, sample_);
  }
}

int64_t AttackModule::MeasuredOver(AttackVariant attack, absl::Span<const uint32_t> positions,
                                   absl::Span<const uint32_t> hint_rows) const {
  const absl::Span<const uint32_t> left_out = RowsLeftOut(attack, hint_rows);
  return static_cast<int64_t>(TraitsOf(attack.attack).cumulative() ? MeasuredRows(positions, left_out, sample_).size()
                                                                   : positions.size() - left_out.size());
}

absl::Status AttackModule::Begin(const AttackedBatch& batch) {
  if (!batch.clean_positives.empty() && batch.clean_positives.size() != batch.gradients.size()) {
    return absl::InvalidArgumentError(absl::StrCat("attack: expected a clean positive gradient for each of ",
                                                   batch.gradients.size(), " layers, found ",
                                                   batch.clean_positives.size()));
  }
  for (auto& [layer, adversary] : adversaries_) {
    AttackInput input;
    input.positions = batch.positions;
    input.activations = batch.activations;
    input.hint_rows = batch.hint_rows;
    size_t i = 0;
    while (i < batch.gradients.size() && batch.gradients[i].layer != layer) {
      ++i;
    }
    if (i == batch.gradients.size()) {
      return absl::InvalidArgumentError(absl::StrCat("attack: expected a gradient of layer ", layer, ", found none"));
    }
    // Found by name above: gradients are in the agreed order, adversaries in the order of their names.
    input.gradients = batch.gradients[i].gradient;
    if (!batch.clean_positives.empty()) {
      input.clean_positive = batch.clean_positives[i];
    }
    SPLITVEIL_RETURN_IF_ERROR(adversary.Begin(input));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AttackScores>> AttackModule::Score(const AttackedBatch& batch) {
  // All scores of a batch before any is submitted: the answers must not teach the attacks that follow.
  SPLITVEIL_RETURN_IF_ERROR(Begin(batch));
  std::vector<AttackScores> all;
  all.reserve(agreed_.size());
  for (const AgreedScore& agreed : agreed_) {
    SPLITVEIL_ASSIGN_OR_RETURN(std::vector<float> scores, adversaries_.at(agreed.layer).Score(agreed.attack));
    all.push_back({agreed.layer, agreed.attack, std::move(scores)});
  }
  return all;
}

absl::Status AttackModule::Remember(const AttackedBatch& batch) {
  absl::Status status = Begin(batch);
  for (const AgreedScore& agreed : agreed_) {
    const AttackTraits traits = TraitsOf(agreed.attack.attack);
    // Scores are dropped: computing them is how these attacks take a batch in.
    if (status.ok() && (traits.cumulative() || traits.learns())) {
      status = adversaries_.at(agreed.layer).Score(agreed.attack).status();
    }
  }
  return status;
}

namespace {

constexpr size_t kBatch = 32;

// A linear layer of one unit on the cut activations.
absl::StatusOr<std::unique_ptr<LayerStack>> CreateHead(const BottomModelOptions& bottom) {
  SPLITVEIL_ASSIGN_OR_RETURN(const OptimizerOptions optimizer, ReadOptimizerOptions(bottom.optimizer));
  LayerStack::Options options;
  options.chain.field = "inference head";
  options.chain.input_width = bottom.cut_width;
  v1::Layer& logit = options.chain.layers.emplace_back();
  logit.set_name("logit");
  logit.set_units(1);
  logit.set_activation(v1::LINEAR);
  options.optimizer = optimizer;
  // A seed of its own, or the head would repeat the first draws of the bottom model.
  options.seed = bottom.seed + 1;
  // Completion trains through the head into the bottom model (Fu et al., USENIX Security 2022).
  options.input_gradient = true;
  return LayerStack::Create(options);
}

// Mean activations of each class; a class without examples has none. [2][cols]
std::array<std::vector<double>, 2> ClassMeans(ConstMatrixView activations, absl::Span<const uint8_t> labels) {
  std::array<std::vector<double>, 2> means;
  for (uint8_t label : {0, 1}) {
    const auto count = static_cast<double>(std::count(labels.begin(), labels.end(), label));
    std::vector<double> weights(labels.size());
    std::transform(labels.begin(), labels.end(), weights.begin(),
                   [&](uint8_t own) { return own == label ? 1 / count : 0; });
    means[label] = count > 0 ? WeightedRowSum(activations, weights) : std::vector<double>();
  }
  return means;
}

// A linear discriminant of the classes: logits along the line between their means, at the scale that makes them log
// odds if the classes spread alike along it.
struct Discriminant {
  std::vector<float> weights;
  float bias = 0;
};

Discriminant Discriminate(ConstMatrixView activations, absl::Span<const uint8_t> labels,
                          const std::array<std::vector<double>, 2>& means) {
  Discriminant discriminant;
  double distance_squared = 0;
  double middle = 0;
  for (size_t k = 0; k < means[0].size(); ++k) {
    const double difference = means[1][k] - means[0][k];
    discriminant.weights.push_back(static_cast<float>(difference));
    distance_squared += difference * difference;
    middle += difference * (means[1][k] + means[0][k]) / 2;
  }
  double spread = 0;
  for (size_t j = 0; j < labels.size(); ++j) {
    // Distance from the middle along the line between the means, in units of its length.
    const double along = InnerProduct(activations.row(static_cast<int64_t>(j)), discriminant.weights) - middle;
    const double from_mean = along - (labels[j] == 1 ? 0.5 : -0.5) * distance_squared;
    spread += from_mean * from_mean / static_cast<double>(labels.size());
  }
  // A few examples lie closer to their mean than others will: log odds of the means stay within +-10.
  // The log odds of Fisher's discriminant with one variance for both classes.
  const double scale = distance_squared / std::max(spread, distance_squared * distance_squared / 20);
  for (float& weight : discriminant.weights) {
    weight = static_cast<float>(weight * scale);
  }
  discriminant.bias = static_cast<float>(-middle * scale);
  return discriminant;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelCompletion>> ModelCompletion::Create(const Options& options,
                                                                         const NamedParameters* trained) {
  if (options.positions.empty() || options.positions.size() != options.labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model completion: expected known examples with a label each, found ", options.positions.size(),
                     " and ", options.labels.size()));
  }
  std::unique_ptr<ModelCompletion> completion(new ModelCompletion(options));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<BottomModel> bottom, BottomModel::Create(options.bottom));
  completion->bottom_ = std::move(bottom);
  // Without them the same model learns from the features alone: the baseline that the difference is taken from.
  if (trained != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(completion->bottom_->SetParameters(*trained));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(completion->head_, CreateHead(options.bottom));
  SPLITVEIL_RETURN_IF_ERROR(completion->StartHead());
  return completion;
}

absl::Status ModelCompletion::StartHead() {
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, bottom_->Predict(options_.features->Gather(options_.positions)));
  const std::array<std::vector<double>, 2> means = ClassMeans(activations, options_.labels);
  if (means[0].empty() || means[1].empty() || means[0] == means[1]) {
    return absl::OkStatus();  // The classes cannot be told apart: the head stays random.
  }
  // With a handful of labels a random head first spoils the trained bottom model; a discriminant starts where the
  // classes already differ.
  const Discriminant discriminant = Discriminate(activations, options_.labels, means);
  absl::Status status = AssignParameters({{"logit.weight", discriminant.weights}, {"logit.bias", {discriminant.bias}}},
                                         head_->parameters(""));
  head_->RestartAverage();
  return status;
}

int64_t ModelCompletion::Steps(int passes) const {
  const auto steps_per_pass = static_cast<int64_t>((options_.positions.size() + kBatch - 1) / kBatch);
  // Bounded, so that many auxiliary labels do not hold up the end of the run.
  return std::min(passes * steps_per_pass, kMaxCompletionSteps);
}

absl::Status ModelCompletion::Train(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    if (next_ >= order_.size()) {
      order_.resize(options_.positions.size());
      std::iota(order_.begin(), order_.end(), 0);
      // A new order for each pass, as in ordinary training.
      std::shuffle(order_.begin(), order_.end(), random_);
      next_ = 0;
    }
    SPLITVEIL_RETURN_IF_ERROR(Learn(absl::MakeConstSpan(order_).subspan(next_, kBatch)));
    next_ += kBatch;
  }
  return absl::OkStatus();
}

absl::Status ModelCompletion::Learn(absl::Span<const uint32_t> ranks) {
  std::vector<uint32_t> positions;
  for (uint32_t rank : ranks) {
    positions.push_back(options_.positions[rank]);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations, bottom_->Forward(options_.features->Gather(positions)));
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass pass, head_->Forward(activations));
  // The logistic loss of a logit z and a label y has the derivative sigmoid(z) - y.
  Matrix residuals(static_cast<int64_t>(ranks.size()), 1);
  for (size_t j = 0; j < ranks.size(); ++j) {
    const double logit = pass.output().data()[j];
    residuals.data()[j] = static_cast<float>(1 / (1 + std::exp(-logit)) - options_.labels[ranks[j]]);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const StackGradients gradients, head_->Backward(pass, residuals, {}));
  // The bottom model learns, too: the adversary owns it, and fine-tunes the whole.
  absl::Status status = bottom_->Backward(gradients.input, {}).status();
  status.Update(LayerStack::Update({head_.get()}));
  if (status.ok()) {
    status = bottom_->Update();
  }
  return status;
}

absl::StatusOr<std::vector<float>> ModelCompletion::Score(absl::Span<const uint32_t> positions) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, bottom_->Predict(options_.features->Gather(positions)));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix logits, head_->Predict(activations));
  return std::vector<float>(logits.data(), logits.data() + logits.size());
}

}  // namespace splitveil
