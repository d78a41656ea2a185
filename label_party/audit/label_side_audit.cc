#include "label_party/audit/label_side_audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/leakage/attack_traits.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Every attack that scores batches.
std::vector<v1::Attack> AllBatchAttacks() {
  std::vector<v1::Attack> attacks;
  for (int number = v1::Attack_MIN + 1; number <= v1::Attack_MAX; ++number) {
    const auto attack = static_cast<v1::Attack>(number);
    if (v1::Attack_IsValid(number) && !TraitsOf(attack).once_a_run) {
      attacks.push_back(attack);
    }
  }
  return attacks;
}

absl::Status CheckShapes(const ReleasedBatch& batch, const ReleaseEvidence& evidence) {
  const auto rows = static_cast<int64_t>(batch.labels.size());
  return evidence.released.rows() == rows && evidence.activations.rows() == rows
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat("released gradients and activations: expected ", rows,
                                                       " rows, found ", evidence.released.rows(), " and ",
                                                       evidence.activations.rows()));
}

}  // namespace

LabelSideAudit::LabelSideAudit(const v1::LabelAudit& config, int64_t examples)
    : every_batches_(config.every_batches()), scorer_(examples) {
  for (int attack : config.attacks()) {
    attacks_.push_back(static_cast<v1::Attack>(attack));
  }
  if (attacks_.empty()) {
    attacks_ = AllBatchAttacks();
  }
  needs_population_ =
      std::any_of(attacks_.begin(), attacks_.end(), [](v1::Attack attack) { return TraitsOf(attack).label_side_only; });
  reads_all_ = needs_population_ || std::any_of(attacks_.begin(), attacks_.end(),
                                                [](v1::Attack attack) { return TraitsOf(attack).remembers; });
}

absl::Status LabelSideAudit::EstimateNext(const ReleasedBatch& batch, const ReleaseEvidence& evidence) {
  absl::StatusOr<Population> population = estimator_.Next(evidence.clean, evidence.released, batch.labels,
                                                          evidence.noise_negative, evidence.noise_positive);
  if (population.ok()) {
    population_ = *std::move(population);
  } else if (population.status().code() != absl::StatusCode::kFailedPrecondition) {
    return population.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OwnScores>> LabelSideAudit::Score(const ReleasedBatch& batch,
                                                             const ReleaseEvidence& evidence) {
  if (!Reads(batch.step)) {
    return std::vector<OwnScores>();
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckShapes(batch, evidence));
  SPLITVEIL_RETURN_IF_ERROR(needs_population_ ? EstimateNext(batch, evidence) : absl::OkStatus());
  AttackInput input;
  input.gradients = evidence.released;
  input.positions = batch.positions;
  input.activations = evidence.activations;
  input.hint_rows = batch.hint_rows;
  input.clean_positive = batch.clean_positive;
  input.population = population_.has_value() ? &*population_ : nullptr;
  SPLITVEIL_RETURN_IF_ERROR(scorer_.Begin(input));
  std::vector<OwnScores> all;
  for (v1::Attack attack : attacks_) {
    if (!TraitsOf(attack).remembers && !Attacks(batch.step)) {
      continue;
    }
    absl::StatusOr<std::vector<float>> scores = scorer_.Score(attack);
    if (absl::IsFailedPrecondition(scores.status())) {
      continue;  // It lacks what it needs to know.
    }
    if (!scores.ok()) {
      return scores.status();
    }
    all.push_back({attack, *std::move(scores)});
  }
  return all;
}

}  // namespace splitveil
