#include "common/leakage/attack_scorer.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/leak_figures.h"
#include "common/leakage/majority_direction.h"
#include "common/leakage/saturated.h"
#include "common/leakage/scores.h"
#include "common/leakage/two_means.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Misfit(const char* what, int64_t expected, int64_t found) {
  return absl::InvalidArgumentError(absl::StrCat("attack input: expected ", what, " ", expected, ", found ", found));
}

absl::Status Missing(v1::Attack attack, const char* what) {
  return absl::FailedPreconditionError(
      absl::StrCat("attack ", AttackName(attack), ": expected ", what, ", found none"));
}

absl::Status CheckInput(const AttackInput& input, int64_t examples) {
  const int64_t rows = input.gradients.rows();
  const int64_t cols = input.gradients.cols();
  if (static_cast<int64_t>(input.positions.size()) != rows) {
    return Misfit("positions", rows, static_cast<int64_t>(input.positions.size()));
  }
  for (uint32_t position : input.positions) {
    if (position >= examples) {
      return absl::InvalidArgumentError("attack input: expected positions of aligned examples, found one outside");
    }
  }
  if (input.activations.size() > 0 && input.activations.rows() != rows) {
    return Misfit("rows of activations", rows, input.activations.rows());
  }
  for (uint32_t row : input.hint_rows) {
    if (row >= rows) {
      return absl::InvalidArgumentError("attack input: expected hint rows inside the batch, found one outside");
    }
  }
  if (!input.clean_positive.empty() && static_cast<int64_t>(input.clean_positive.size()) != cols) {
    return Misfit("a clean positive gradient of width", cols, static_cast<int64_t>(input.clean_positive.size()));
  }
  if (input.population != nullptr && (static_cast<int64_t>(input.population->direction.size()) != cols ||
                                      static_cast<int64_t>(input.population->origin.size()) != cols)) {
    return Misfit("a population of width", cols, static_cast<int64_t>(input.population->direction.size()));
  }
  return absl::OkStatus();
}

std::vector<float> Saturated(const std::vector<double>& scores, double factor = 1) {
  std::vector<float> saturated;
  saturated.reserve(scores.size());
  for (double score : scores) {
    saturated.push_back(splitveil::Saturated(factor * score));
  }
  return saturated;
}

// Batches whose scores differ in scale are summed in units of their standard deviation.
std::vector<double> Standardized(std::vector<float> scores) {
  StandardizeScores(scores);
  return {scores.begin(), scores.end()};
}

}  // namespace

AttackScorer::AttackScorer(int64_t examples) : examples_(examples) {}

absl::Status AttackScorer::Begin(const AttackInput& input) {
  SPLITVEIL_RETURN_IF_ERROR(CheckInput(input, examples_));
  input_ = input;
  hint_scores_.reset();
  spectral_.reset();
  likelihood_ratio_.reset();
  projection_.reset();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> AttackScorer::Score(v1::Attack attack) {
  switch (attack) {
    case v1::NORM:
      return NormScores(input_.gradients);
    case v1::COSINE:
    case v1::INNER_PRODUCT:
      if (input_.clean_positive.empty()) {
        return Missing(attack, "a clean positive gradient");
      }
      return attack == v1::COSINE ? CosineScores(input_.gradients, input_.clean_positive)
                                  : InnerProductScores(input_.gradients, input_.clean_positive);
    case v1::HINT_DISTANCE_1:
    case v1::HINT_DISTANCE_3:
    case v1::HINT_DISTANCE_5:
    case v1::HINT_INNER_PRODUCT_1:
    case v1::HINT_INNER_PRODUCT_3:
    case v1::HINT_INNER_PRODUCT_5:
      return ScoreByHints(attack);
    case v1::MAJORITY_DIRECTION:
      return MajorityDirectionScores(input_.gradients);
    case v1::SPECTRAL:
      return Saturated(Spectral(), gradient_direction_.orientation());
    case v1::CUMULATIVE_SPECTRAL:
      return ScoreCumulative();
    case v1::GRADIENT_CLUSTERS:
      return ScoreClusters(input_.gradients, gradient_clusters_);
    case v1::ACTIVATION_CLUSTERS:
      if (input_.activations.size() == 0) {
        return Missing(attack, "activations");
      }
      return ScoreClusters(input_.activations, activation_clusters_);
    case v1::RESIDUAL_NORM:
      Spectral();
      return ResidualNormScores(input_.gradients, gradient_direction_.direction());
    case v1::MEASURED_LIKELIHOOD_RATIO:
      return input_.population == nullptr || !input_.population->measured
                 ? absl::StatusOr<std::vector<float>>(Missing(attack, "the classes' moments"))
                 : LikelihoodRatioScores(input_.gradients, *input_.population, Spread::kMeasured);
    case v1::LIKELIHOOD_RATIO:
    case v1::CUMULATIVE_LIKELIHOOD_RATIO:
      return ScoreByLikelihood(attack);
    case v1::DIRECTION:
    case v1::CUMULATIVE_DIRECTION:
      return ScoreByDirection(attack);
    default:
      return absl::FailedPreconditionError(absl::StrCat("attack: expected one that runs on a batch, found ",
                                                        AttackName(attack), " (number ", attack, ")"));
  }
}

absl::StatusOr<std::vector<float>> AttackScorer::ScoreByHints(v1::Attack attack) {
  if (input_.hint_rows.empty()) {
    return Missing(attack, "hint rows");
  }
  if (!hint_scores_.has_value()) {
    hint_scores_.emplace(input_.gradients, input_.hint_rows);
  }
  const int hints = TraitsOf(attack).hints;
  const bool distance = attack == v1::HINT_DISTANCE_1 || attack == v1::HINT_DISTANCE_3 || attack == v1::HINT_DISTANCE_5;
  return distance ? hint_scores_->Distance(hints) : hint_scores_->InnerProduct(hints);
}

std::vector<float> AttackScorer::ScoreClusters(ConstMatrixView rows, Clusters& clusters) {
  (void)clusters.direction.Project(rows);
  TwoMeans found = ClusterInTwo(rows, clusters.direction.direction());
  // Under noise the clusters of one batch are of nearly one size.
  clusters.votes += 0.5 - found.share_along;
  if (clusters.votes < 0) {
    std::transform(found.scores.begin(), found.scores.end(), found.scores.begin(), std::negate<>());
  }
  return std::move(found.scores);
}

absl::StatusOr<std::vector<float>> AttackScorer::ScoreByLikelihood(v1::Attack attack) {
  if (input_.population == nullptr || !input_.population->modelled) {
    return Missing(attack, "the classes' moments");
  }
  if (!likelihood_ratio_.has_value()) {
    likelihood_ratio_ = LikelihoodRatioScores(input_.gradients, *input_.population);
  }
  // Log ratios of independent releases add as they are.
  return attack == v1::LIKELIHOOD_RATIO
             ? *likelihood_ratio_
             : Saturated(Remember(attack, {likelihood_ratio_->begin(), likelihood_ratio_->end()}));
}

absl::StatusOr<std::vector<float>> AttackScorer::ScoreByDirection(v1::Attack attack) {
  if (input_.population == nullptr) {
    return Missing(attack, "the classes' moments");
  }
  if (!projection_.has_value()) {
    projection_ = DirectionScores(input_.gradients, *input_.population);
  }
  return attack == v1::DIRECTION ? *projection_ : Saturated(Remember(attack, Standardized(*projection_)));
}

const std::vector<double>& AttackScorer::Spectral() {
  if (!spectral_.has_value()) {
    spectral_ = gradient_direction_.Project(input_.gradients);
  }
  return *spectral_;
}

std::vector<float> AttackScorer::ScoreCumulative() {
  const std::vector<double>& sums = remembered_[v1::CUMULATIVE_SPECTRAL];
  std::vector<float> past;
  past.reserve(input_.positions.size());
  for (uint32_t position : input_.positions) {
    past.push_back(sums.empty() ? 0 : splitveil::Saturated(sums[position]));
  }
  StandardizeScores(past);
  const std::vector<double> projections = cumulative_direction_.Project(input_.gradients, past);
  // Summed as the direction lies; the vote on which end is positive is cast on the sums.
  return Saturated(Remember(v1::CUMULATIVE_SPECTRAL, Standardized(Saturated(projections))),
                   cumulative_direction_.orientation());
}

std::vector<double> AttackScorer::Remember(v1::Attack attack, const std::vector<double>& evidence) {
  std::vector<double>& sums = remembered_[attack];
  sums.resize(examples_);
  std::vector<double> current;
  current.reserve(evidence.size());
  for (size_t j = 0; j < evidence.size(); ++j) {
    double& sum = sums[input_.positions[j]];
    sum += evidence[j];
    current.push_back(sum);
  }
  return current;
}

}  // namespace splitveil
