#include "label_party/audit/label_side_audit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/leakage/linear_algebra.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// The configured attacks, or every one that scores batches.
std::vector<AttackVariant> AttacksOf(const v1::LabelSideAudit& config) {
  const std::vector<int> hint_counts = HintCounts(config.hint_counts());
  std::vector<AttackVariant> attacks;
  const auto add = [&](v1::Attack attack) {
    const std::vector<AttackVariant> variants = VariantsOf(attack, hint_counts);
    attacks.insert(attacks.end(), variants.begin(), variants.end());
  };
  for (int attack : config.attacks()) {
    add(static_cast<v1::Attack>(attack));
  }
  if (!attacks.empty()) {
    return attacks;
  }
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (!traits.once_per_run()) {
      add(traits.attack);
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

// Of each row, the length of the longest among the others.
std::vector<double> LongestOthers(ConstMatrixView rows) {
  std::vector<double> lengths;
  double longest = 0, second = 0;
  for (int64_t j = 0; j < rows.rows(); ++j) {
    const double length = std::sqrt(SquaredNorm(rows.row(j)));
    lengths.push_back(length);
    second = std::max(second, std::min(length, longest));
    longest = std::max(longest, length);
  }
  for (double& length : lengths) {
    length = length == longest ? second : longest;
  }
  return lengths;
}

}  // namespace

LabelSideAudit::LabelSideAudit(const v1::LabelSideAudit& config, int64_t examples)
    : attacks_(AttacksOf(config)), every_batches_(config.every_batches()), scorer_(examples) {
  for (const AttackVariant& attack : attacks_) {
    const AttackTraits traits = TraitsOf(attack.attack);
    // The line of the noise is that of the population.
    needs_population_ = needs_population_ || traits.label_side_only();
    reads_all_ = reads_all_ || traits.label_side_only() || traits.cumulative() || traits.learns();
  }
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

void LabelSideAudit::Place(const ReleasedBatch& batch, const ReleaseEvidence& evidence) {
  places_ = {};
  longest_others_ = evidence.has_noise_along_rows ? LongestOthers(evidence.clean) : std::vector<double>();
  if (batch.candidates.empty() || evidence.label_directions.size() == 0) {
    return;
  }
  CandidateEvidence between;
  between.released = evidence.released;
  between.output_directions = evidence.label_directions;
  between.predictions = evidence.probabilities;
  between.label_mu = evidence.has_label_noise ? std::sqrt(evidence.sum_kl) : 0;
  between.releases_posterior = evidence.releases_posterior;
  places_ = PlacesBetween(batch.candidates, between);
}

bool LabelSideAudit::KnowsPlaces() const {
  return std::any_of(places_.exact.begin(), places_.exact.end(), [](uint8_t exact) { return exact != 0; });
}

std::optional<ReleasingHead> LabelSideAudit::HeadOf(const ReleaseEvidence& evidence) const {
  const bool stated = evidence.noise_negative.along >= 0 && evidence.noise_positive.along >= 0;
  if (evidence.label_directions.size() == 0 || (stated && !population_.has_value()) ||
      (!places_.places.empty() && !KnowsPlaces())) {
    return std::nullopt;
  }
  ReleasingHead head;
  head.label_directions = evidence.label_directions;
  head.probabilities = evidence.probabilities;
  head.clip_norm = evidence.clip_norm;
  head.noise_negative = evidence.noise_negative;
  head.noise_positive = evidence.noise_positive;
  if (stated) {
    head.noise_direction = population_->direction;
  }
  head.longest_others = longest_others_;
  head.releases_repeat = evidence.releases_repeat;
  head.releases_posterior = evidence.releases_posterior;
  head.label_mu = evidence.has_label_noise ? std::sqrt(evidence.sum_kl) : 0;
  head.places = places_.places;
  head.separations = places_.separations;
  head.exact = places_.exact;
  return head;
}

absl::StatusOr<std::vector<BatchScores>> LabelSideAudit::Score(const ReleasedBatch& batch,
                                                               const ReleaseEvidence& evidence) {
  if (!Reads(batch.step)) {
    return std::vector<BatchScores>();
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckShapes(batch, evidence));
  SPLITVEIL_RETURN_IF_ERROR(needs_population_ ? EstimateNext(batch, evidence) : absl::OkStatus());
  Place(batch, evidence);
  AttackInput input;
  input.gradients = evidence.released;
  input.positions = batch.positions;
  input.activations = evidence.activations;
  input.hint_rows = batch.hint_rows;
  input.clean_positive = batch.CleanPositive(evidence.clean);
  input.population = population_.has_value() ? &*population_ : nullptr;
  const std::optional<ReleasingHead> head = HeadOf(evidence);
  input.head = head.has_value() ? &*head : nullptr;
  SPLITVEIL_RETURN_IF_ERROR(scorer_.Begin(input));
  std::vector<BatchScores> all;
  for (const AttackVariant& attack : attacks_) {
    const AttackTraits traits = TraitsOf(attack.attack);
    const bool counts = traits.cumulative() || Attacks(batch.step);
    if (!counts && !traits.learns()) {
      continue;
    }
    absl::StatusOr<std::vector<float>> scores = scorer_.Score(attack);
    if (absl::IsFailedPrecondition(scores.status())) {
      continue;  // It lacks what it needs to know.
    }
    if (!scores.ok()) {
      return scores.status();
    }
    if (counts) {
      all.push_back({attack, *std::move(scores)});
    }
  }
  return all;
}

}  // namespace splitveil
