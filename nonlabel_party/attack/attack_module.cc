#include "nonlabel_party/attack/attack_module.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {

AttackModule::AttackModule(const v1::AuditAgreement& audit, int64_t examples) : agreed_(AgreedScores(audit)) {
  for (const AgreedScore& score : agreed_) {
    const AttackTraits traits = TraitsOf(score.attack.attack);
    remembers_ = remembers_ || traits.cumulative() || traits.learns();
    needs_activations_ = needs_activations_ || traits.needs_activations();
    needs_oracle_ = needs_oracle_ || traits.needs_oracle();
    // One adversary a layer: what it remembers of earlier epochs is of that layer's gradients.
    adversaries_.try_emplace(score.layer, examples);
  }
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
    // Begin may remember the batch, so every adversary sees every batch, audited or not.
    input.gradients = batch.gradients[i].gradient;
    if (!batch.clean_positives.empty()) {
      input.clean_positive = batch.clean_positives[i];
    }
    SPLITVEIL_RETURN_IF_ERROR(adversary.Begin(input));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AttackScores>> AttackModule::Score(const AttackedBatch& batch) {
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

}  // namespace splitveil
