#include "common/leakage/attack_scorer.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/leak_figures.h"
#include "common/leakage/linear_algebra.h"
#include "common/leakage/scores.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Misfit(const char* what, int64_t expected, int64_t found) {
  return absl::InvalidArgumentError(absl::StrCat("attack input: expected ", what, " ", expected, ", found ", found));
}

absl::Status CheckHead(const ReleasingHead& head, int64_t rows, int64_t cols) {
  if (!head.places.empty()) {
    const auto places = static_cast<int64_t>(head.places.size());
    return places == rows && head.separations.size() == head.places.size() && head.exact.size() == head.places.size()
               ? absl::OkStatus()
               : Misfit("places between two labels", rows, places);
  }
  if (head.label_directions.rows() != rows || head.label_directions.cols() != cols) {
    return Misfit("rows of label directions", rows, head.label_directions.rows());
  }
  if (static_cast<int64_t>(head.probabilities.size()) != rows) {
    return Misfit("probabilities", rows, static_cast<int64_t>(head.probabilities.size()));
  }
  const NoiseVariances &negative = head.noise_negative, &positive = head.noise_positive;
  // Noise that is not stated is NaN, which compares false. Noise that is alike in all directions needs no line.
  const bool stated = negative.along >= 0 && positive.along >= 0;
  const bool needs_line = negative.along != negative.across || positive.along != positive.across;
  return stated && (needs_line || !head.noise_direction.empty()) &&
                 static_cast<int64_t>(head.noise_direction.size()) != cols
             ? Misfit("a noise direction of width", cols, static_cast<int64_t>(head.noise_direction.size()))
             : absl::OkStatus();
}

// Checked once in Begin for all attacks: none of the loops that follow tests an index again.
absl::Status CheckInput(const AttackInput& input, int64_t examples) {
  const int64_t rows = input.gradients.rows();
  const int64_t cols = input.gradients.cols();
  if (static_cast<int64_t>(input.positions.size()) != rows) {
    return Misfit("positions", rows, static_cast<int64_t>(input.positions.size()));
  }
  // What is remembered lies in arrays by position: one outside would be written beyond their end.
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
  return input.head == nullptr ? absl::OkStatus() : CheckHead(*input.head, rows, cols);
}

std::vector<float> SaturatedAll(const std::vector<double>& scores, double factor = 1) {
  std::vector<float> saturated;
  saturated.reserve(scores.size());
  for (double score : scores) {
    saturated.push_back(Saturated(factor * score));
  }
  return saturated;
}

// `value`, made by `make` when it is first asked for: attacks on one batch share what is costly.
template <typename Value, typename Make>
Value& Once(std::optional<Value>& value, const Make& make) {
  if (!value.has_value()) {
    value = make();
  }
  return *value;
}

// Batches whose scores differ in scale are summed in units of their standard deviation.
std::vector<double> Standardized(std::vector<float> scores) {
  StandardizeScores(scores);
  return {scores.begin(), scores.end()};
}

}  // namespace

AttackScorer::AttackScorer(const ExampleSample& sample) : sample_(sample) {}

// Only what lasts a batch is reset; directions, sums and surrogates go on, as an adversary's memory does.
absl::Status AttackScorer::Begin(const AttackInput& input) {
  SPLITVEIL_RETURN_IF_ERROR(CheckInput(input, sample_.examples()));
  input_ = input;
  batch_ = Batch();
  return absl::OkStatus();
}

absl::Status AttackScorer::CheckKnown(const AttackTraits& traits) const {
  const auto need = [&](bool known, const char* what) {
    return known ? absl::OkStatus()
                 : absl::FailedPreconditionError(
                       absl::StrCat("attack ", traits.name, ": expected ", what, ", found none"));
  };
  // Fail closed: an attack without what it needs has no score, rather than a weak one that looks like safety.
  const Population* const population = input_.population;
  switch (traits.needs) {
    case SideInformation::kNone:
      return absl::OkStatus();
    case SideInformation::kActivations:
    case SideInformation::kActivationsToo:
      return need(input_.activations.size() > 0, "activations");
    case SideInformation::kCleanPositive:
      return need(!input_.clean_positive.empty(), "a clean positive gradient");
    case SideInformation::kHintRows:
      return need(!input_.hint_rows.empty(), "hint rows");
    case SideInformation::kAuxiliaryLabels:
      return need(false, "labels of training examples");
    case SideInformation::kClassMeans:
      return need(population != nullptr, "the classes' moments");
    case SideInformation::kClassMoments:
      return need(population != nullptr && population->modelled, "the classes' moments");
    case SideInformation::kMeasuredClassMoments:
      return need(population != nullptr && population->measured, "the classes' moments");
    case SideInformation::kReleasingHead:
      return need(input_.head != nullptr, "the releasing head");
  }
  return absl::InternalError("attack: side information of no kind");
}

absl::StatusOr<std::vector<float>> AttackScorer::Score(AttackVariant variant) {
  // Attacks on auxiliary labels run once after training, and a hint attack without a number of hints is no attack at
  // all.
  const AttackTraits traits = TraitsOf(variant.attack);
  if (traits.name.empty() || traits.once_per_run() || traits.takes_hint_count() != (variant.hint_count > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("attack ", traits.name, " (number ", variant.attack, ") with ", variant.hint_count,
                     " hints: it does not score batches, or needs a different number of hints"));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckKnown(traits));
  switch (variant.attack) {
    case v1::NORM:
      return NormScores(input_.gradients);
    case v1::COSINE:
      return CosineScores(input_.gradients, input_.clean_positive);
    case v1::INNER_PRODUCT:
      return InnerProductScores(input_.gradients, input_.clean_positive);
    case v1::HINT_DISTANCE:
    case v1::HINT_INNER_PRODUCT:
      return ScoreByHints(variant);
    case v1::MAJORITY_DIRECTION:
      return MajorityDirectionScores(input_.gradients);
    case v1::SPECTRAL:
      return SaturatedAll(Spectral(), gradient_direction_.orientation());
    case v1::CUMULATIVE_SPECTRAL:
      return ScoreCumulative();
    case v1::GRADIENT_CLUSTERS:
      return ScoreClusters(input_.gradients, gradient_clusters_);
    case v1::ACTIVATION_CLUSTERS:
      return ScoreClusters(input_.activations, activation_clusters_);
    case v1::RESIDUAL_NORM:
      // For its side effect: the residual is taken across the main direction of this batch, which Spectral finds.
      Spectral();
      return ResidualNormScores(input_.gradients, gradient_direction_.direction());
    case v1::MEASURED_LIKELIHOOD_RATIO:
      return LikelihoodRatioScores(input_.gradients, *input_.population, ClassSpread::kMeasured);
    case v1::LIKELIHOOD_RATIO:
    case v1::CUMULATIVE_LIKELIHOOD_RATIO:
      return ScoreByLikelihood(variant.attack);
    case v1::DIRECTION:
    case v1::CUMULATIVE_DIRECTION:
      return ScoreByDirection(variant.attack);
    case v1::CONDITIONAL_LIKELIHOOD_RATIO:
    case v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO:
      return ScoreByHead(variant.attack);
    case v1::SURROGATE_HEAD:
    case v1::CUMULATIVE_SURROGATE_HEAD:
    case v1::UNSPLIT:
      return ScoreBySurrogate(variant.attack);
    case v1::FACTOR_ANALYSIS:
    case v1::CUMULATIVE_FACTOR_ANALYSIS:
      return ScoreByFactor(variant.attack);
    default:
      return absl::InternalError(absl::StrCat("attack: ", traits.name, " is in the table and has no score"));
  }
}

std::vector<float> AttackScorer::ScoreByHints(AttackVariant variant) {
  const HintScores& scores = Once(batch_.hint_scores, [&] { return HintScores(input_.gradients, input_.hint_rows); });
  return variant.attack == v1::HINT_DISTANCE ? scores.Distance(variant.hint_count)
                                             : scores.InnerProduct(variant.hint_count);
}

std::vector<float> AttackScorer::ScoreClusters(ConstMatrixView rows, Clusters& clusters) {
  // For the direction alone: it orients the clusters alike from batch to batch.
  (void)clusters.direction.Project(rows);
  // Two clusters have no names. Their direction keeps the same orientation over batches, so votes can accumulate.
  TwoMeans found = ClusterInTwo(rows, clusters.direction.direction());
  // The smaller cluster is the positives (Liu et al., arXiv 2203.05222). Under noise the two are of nearly one size in
  // one batch, so the votes of all batches decide.
  clusters.votes += 0.5 - found.share_along;
  if (clusters.votes < 0) {
    std::transform(found.scores.begin(), found.scores.end(), found.scores.begin(), std::negate<>());
  }
  return std::move(found.scores);
}

std::vector<float> AttackScorer::ScoreByLikelihood(v1::Attack attack) {
  const std::vector<float>& ratios =
      Once(batch_.likelihood_ratio, [&] { return LikelihoodRatioScores(input_.gradients, *input_.population); });
  // Log ratios of independent releases add as they are.
  return attack == v1::LIKELIHOOD_RATIO ? ratios : SaturatedAll(Remember(attack, {ratios.begin(), ratios.end()}));
}

std::vector<float> AttackScorer::ScoreByDirection(v1::Attack attack) {
  const std::vector<float>& projection =
      Once(batch_.projection, [&] { return DirectionScores(input_.gradients, *input_.population); });
  // A projection has the unit of the gradients, which shrink in training: unstandardised, the first epochs would
  // decide.
  return attack == v1::DIRECTION ? projection : SaturatedAll(Remember(attack, Standardized(projection)));
}

std::vector<float> AttackScorer::ScoreByHead(v1::Attack attack) {
  const std::vector<double>& ratios =
      Once(batch_.conditional_log_ratio, [&] { return ConditionalLogRatios(input_.gradients, *input_.head); });
  if (attack == v1::CONDITIONAL_LIKELIHOOD_RATIO) {
    return SaturatedAll(ratios);
  }
  // Releases made of one noised label repeat each other: summed, they would count the same evidence again.
  if (input_.head->releases_repeat) {
    return SaturatedAll(KeepMostExact(ratios));
  }
  std::vector<double> evidence = ratios;
  // Places are in units of the noise on the label; the weight makes log ratios of them, which alone may be summed.
  const double weight = EvidenceWeight(*input_.head);
  std::transform(evidence.begin(), evidence.end(), evidence.begin(), [&](double ratio) { return weight * ratio; });
  return SaturatedAll(Remember(attack, evidence));
}

const GradientViews& AttackScorer::Views() {
  // Splitting a batch also advances the tracked directions, so the two attacks that need views must share one split.
  return Once(batch_.views, [&] { return splitter_.Split(input_.gradients); });
}

std::vector<float> AttackScorer::ScoreBySurrogate(v1::Attack attack) {
  // Scoring a batch also learns from it, so it must happen once however many attacks ask.
  const SurrogateScores& scores =
      Once(batch_.surrogate_scores, [&] { return surrogate_.Take(Views(), input_.activations); });
  if (attack == v1::UNSPLIT) {
    return SaturatedAll(scores.matching);
  }
  // UnSplit matches directions and has no log ratio, so it has no cumulative variant; the surrogate's log ratios add
  // up.
  return SaturatedAll(attack == v1::SURROGATE_HEAD ? scores.log_ratios : Remember(attack, scores.log_ratios));
}

std::vector<float> AttackScorer::ScoreByFactor(v1::Attack attack) {
  const std::vector<double>& ratios = Once(batch_.factor_log_ratio, [&] { return label_factor_.Take(Views()); });
  return SaturatedAll(attack == v1::FACTOR_ANALYSIS ? ratios : Remember(attack, ratios));
}

const std::vector<double>& AttackScorer::Spectral() {
  return Once(batch_.spectral, [&] { return gradient_direction_.Project(input_.gradients); });
}

std::vector<float> AttackScorer::ScoreCumulative() {
  // The direction has no sign of its own: what earlier epochs said of these rows gives it one.
  // In a first epoch there are no sums yet: all evidence is 0, and the attack ranks as the plain spectral one.
  const std::vector<double>& sums = remembered_[v1::CUMULATIVE_SPECTRAL];
  std::vector<float> past;
  past.reserve(input_.positions.size());
  for (uint32_t position : input_.positions) {
    const std::optional<uint32_t> slot = sample_.SlotOf(position);
    past.push_back(sums.empty() || !slot.has_value() ? 0 : Saturated(sums[*slot]));
  }
  StandardizeScores(past);
  const std::vector<double> projections = cumulative_direction_.Project(input_.gradients, past);
  // Summed as the direction lies; the vote on which end is positive is cast on the sums.
  // The orientation may still change, so it is applied to the sums when they are read and never stored in them.
  return SaturatedAll(Remember(v1::CUMULATIVE_SPECTRAL, Standardized(SaturatedAll(projections))),
                      cumulative_direction_.orientation());
}

std::vector<double> AttackScorer::KeepMostExact(const std::vector<double>& evidence) {
  most_exact_.resize(static_cast<size_t>(sample_.size()));
  const std::vector<double> precisions = RepeatPrecisions(*input_.head);
  std::vector<double> current;
  current.reserve(evidence.size());
  for (size_t j = 0; j < evidence.size(); ++j) {
    const std::optional<uint32_t> slot = sample_.SlotOf(input_.positions[j]);
    if (!slot.has_value()) {
      current.push_back(evidence[j]);
      continue;
    }
    Repeated& kept = most_exact_[*slot];
    // A repeated release adds no evidence; a more exact reading of it replaces the earlier one.
    if (precisions[j] > kept.precision) {
      kept = {precisions[j], evidence[j]};
    }
    current.push_back(kept.evidence);
  }
  return current;
}

std::vector<double> AttackScorer::Remember(v1::Attack attack, const std::vector<double>& evidence) {
  std::vector<double>& sums = remembered_[attack];
  // Made when first used: examples times attacks would be much memory for attacks that never run.
  sums.resize(static_cast<size_t>(sample_.size()));
  std::vector<double> current;
  current.reserve(evidence.size());
  for (size_t j = 0; j < evidence.size(); ++j) {
    const std::optional<uint32_t> slot = sample_.SlotOf(input_.positions[j]);
    current.push_back(slot.has_value() ? sums[*slot] += evidence[j] : evidence[j]);
  }
  return current;
}

}  // namespace splitveil
