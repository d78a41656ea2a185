#include "label_party/audit/label_side_audit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/mixed_bits.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/linear_algebra.h"
#include "common/process/parallel_for.h"
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

constexpr double kRidge = 1e-6;             // Share of the trace: two equal directions still give a solution.
constexpr double kIndependentPivot = 1e-4;  // Share of the mean diagonal element.

// The equations by which a gradient gives the residuals of its row: released = sum_k residual_k direction_k. Least
// squares, (G + ridge) r = products of the row with each direction.
class ResidualEquations {
 public:
  // `directions` [K, d] of the row; not kept.
  explicit ResidualEquations(ConstMatrixView directions) {
    const int64_t k = directions.rows();
    double trace = 0;
    for (int64_t i = 0; i < k; ++i) {
      trace += SquaredNorm(directions.row(i));
    }
    if (!(trace > 0) || !std::isfinite(trace)) {
      return;  // No direction at all: the label moves nothing that was released.
    }
    // One direction alone needs no ridge.
    const double ridge = k == 1 ? 0 : kRidge * trace;
    // A pivot that small is the ridge's: two directions are the same up to rounding. Behind a layer narrower than the
    // classes that is so from that row on, which spares the cube of the classes.
    const double least_pivot = ridge + kIndependentPivot * trace / static_cast<double>(k);
    system_ = PositiveSystem::OfProducts(directions, ridge, least_pivot);
    if (system_.has_value()) {
      sensitivity_ = std::sqrt(static_cast<double>(k) / system_->SmallestPivot());
    }
  }

  // Whether the directions are independent: if not, there is no solution to trust.
  bool exact() const { return system_.has_value(); }
  // At most by so much of a change of the row does a residual change: the least pivot is that of the direction that
  // the others explain best.
  double sensitivity() const { return sensitivity_; }
  // [K]. Where exact.
  std::vector<double> Solve(ConstMatrixView directions, absl::Span<const float> released) const {
    std::vector<double> residuals = InnerProducts(directions, released);
    system_->Solve(residuals, /*columns=*/1);
    return residuals;
  }

 private:
  std::optional<PositiveSystem> system_;
  double sensitivity_ = 0;
};

// Of a release without noise of several classes: sum_k label_k direction_k on the line from one candidate's direction
// to the other's. NaN if the two are one.
float PlaceOnLine(const CandidateEvidence& evidence, int64_t row, const LabelCandidates& between) {
  const absl::Span<const float> released = evidence.released.row(row), directions = evidence.output_directions.row(row);
  const size_t d = released.size(), outputs = directions.size() / d;
  const absl::Span<const float> low = directions.subspan(static_cast<size_t>(between.low) * d, d);
  const absl::Span<const float> high = directions.subspan(static_cast<size_t>(between.high) * d, d);
  // residual_k = p_k - label_k, so sum_k label_k v_k = sum_k p_k v_k - released. From candidate `low`: subtract v_low,
  // project on v_high - v_low.
  std::vector<double> from_low(d);
  for (size_t i = 0; i < d; ++i) {
    from_low[i] = -static_cast<double>(released[i]) - low[i];
  }
  // Direction by direction, as they lie in memory: there may be hundreds.
  for (size_t k = 0; k < outputs; ++k) {
    const auto prediction = static_cast<double>(evidence.predictions[static_cast<size_t>(row) * outputs + k]);
    for (size_t i = 0; i < d; ++i) {
      from_low[i] += prediction * directions[k * d + i];
    }
  }
  double along = 0, length = 0;
  for (size_t i = 0; i < d; ++i) {
    const double step = static_cast<double>(high[i]) - low[i];
    along += from_low[i] * step;
    length += step * step;
  }
  return length > 0 ? static_cast<float>(along / length) : std::numeric_limits<float>::quiet_NaN();
}

double LogShare(double share) {
  constexpr double kLeast = 1e-30;  // Rounding may leave nothing.
  return std::log(std::max(share, kLeast));
}

// One row of several classes.
struct ClassRow {
  absl::Span<const float> predictions;
  absl::Span<const double> residuals;
  size_t low = 0, high = 0;

  // The residual is prediction minus target, so this is the target that the head learned from.
  double Target(size_t k) const { return predictions[k] - residuals[k]; }
  double Place() const { return 0.5 + (Target(high) - Target(low)) / 2; }
  // The log ratio of what is between prior and posterior, mu^2 (place - 1/2), with so much on either target.
  double PlaceOfPosterior(double mu, double on_high = 0, double on_low = 0) const {
    const double ratio = LogShare(Target(high) + on_high) - LogShare(predictions[high]) -
                         LogShare(Target(low) + on_low) + LogShare(predictions[low]);
    return 0.5 + ratio / (mu * mu);
  }
  // By how much the place may be off if each target is by `margin`.
  double MarginOfPosterior(double mu, double margin) const {
    const double place = PlaceOfPosterior(mu);
    return std::max(PlaceOfPosterior(mu, margin, -margin) - place, place - PlaceOfPosterior(mu, -margin, margin));
  }
  bool KeepsPosterior() const { return std::min(predictions[low], predictions[high]) >= kLeastProbability; }
};

}  // namespace

LabelSideAudit::LabelSideAudit(const v1::LabelSideAudit& config, const ExampleSample& sample)
    : attacks_(AttacksOf(config)), every_batches_(config.every_batches()), scorer_(sample) {
  for (const AttackVariant& attack : attacks_) {
    const AttackTraits traits = TraitsOf(attack.attack);
    needs_population_ = needs_population_ || traits.takes_population();
    // Attacks that accumulate or learn miss evidence if they read only every n-th batch.
    reads_all_ = reads_all_ || traits.label_side_only() || traits.cumulative() || traits.learns();
  }
}

absl::Status LabelSideAudit::EstimateNext(const ReleasedBatch& batch, const ReleaseEvidence& evidence) {
  absl::StatusOr<Population> population =
      estimator_.Next(evidence.clean, evidence.released, batch.labels,
                      {evidence.noise_negative, evidence.noise_positive, evidence.noise_direction,
                       evidence.spread_negative, evidence.spread_positive});
  if (population.ok()) {
    population_ = *std::move(population);
    // FailedPrecondition: the first batches do not know both classes yet.
  } else if (population.status().code() != absl::StatusCode::kFailedPrecondition) {
    return population.status();
  }
  return absl::OkStatus();
}

void LabelSideAudit::Place(const ReleasedBatch& batch, const ReleaseEvidence& evidence) {
  // Of this release only: an earlier place with a new gradient would be evidence of nothing.
  places_ = {};
  // Two classes need no places: their candidates are 0 and 1.
  if (batch.candidates.empty() || evidence.label_directions.size() == 0) {
    return;
  }
  CandidateEvidence between;
  between.released = evidence.released;
  between.output_directions = evidence.label_directions;
  between.predictions = evidence.probabilities;
  between.label_mu = evidence.has_label_noise ? std::sqrt(evidence.sum_kl) : 0;
  between.releases_posterior = evidence.releases_posterior;
  between.rounding = evidence.rounding;
  places_ = PlacesBetween(batch.candidates, between);
}

bool LabelSideAudit::KnowsPlaces() const {
  return std::any_of(places_.exact.begin(), places_.exact.end(), [](uint8_t exact) { return exact != 0; });
}

std::optional<ReleasingHead> LabelSideAudit::HeadOf(const ReleaseEvidence& evidence) const {
  // Without v and p nothing can be tested along them; without one exact place the stated law holds for no row.
  if (evidence.label_directions.size() == 0 || (!places_.places.empty() && !KnowsPlaces())) {
    return std::nullopt;
  }
  ReleasingHead head;
  head.label_directions = evidence.label_directions;
  head.probabilities = evidence.probabilities;
  head.clip_norm = evidence.clip_norm;
  // As the protection states it: the worst-case adversary knows the law of the noise, not the draw.
  head.noise_negative = evidence.noise_negative;
  head.noise_positive = evidence.noise_positive;
  head.noise_direction = evidence.noise_direction;
  head.longest = evidence.longest;
  head.releases_repeat = evidence.releases_repeat;
  head.releases_posterior = evidence.releases_posterior;
  head.has_flipped_label = evidence.has_flipped_labels;
  head.label_mu = evidence.has_label_noise ? std::sqrt(evidence.sum_kl) : 0;
  head.places = places_.places;
  head.separations = places_.separations;
  head.exact = places_.exact;
  head.margins = places_.margins;
  head.rounding = evidence.rounding;
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
  std::optional<ReleasingHead> head = HeadOf(evidence);
  if (head.has_value()) {
    head->labels = batch.pair_labels();
  }
  input.head = head.has_value() ? &*head : nullptr;
  SPLITVEIL_RETURN_IF_ERROR(scorer_.Begin(input));
  std::vector<BatchScores> all;
  for (const AttackVariant& attack : attacks_) {
    const AttackTraits traits = TraitsOf(attack.attack);
    // An attack that learns must read every batch, even those whose scores are not recorded.
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

LabelCandidates CandidatesOf(const Task& task, float label, uint32_t position) {
  switch (task.kind) {
    case Task::Kind::kBinary:
      break;
    case Task::Kind::kMultiClass: {
      // By position, so that it is the same class in all epochs: their evidence must add up. It does no harm if the
      // peer knows which pair is tried.
      const auto drawn =
          static_cast<float>(MixBits(position + kMixIncrement) % static_cast<uint64_t>(task.classes - 1));
      const float other = drawn < label ? drawn : drawn + 1;
      return {std::min(label, other), std::max(label, other)};
    }
    // The farther end of [0, 1]: the largest change of this label that an adversary could have to tell.
    case Task::Kind::kRegression:
      return label < 0.5F ? LabelCandidates{label, 1} : LabelCandidates{0, label};
  }
  return {};
}

namespace {

// Places of rows, one after the other.
class PlaceFinder {
 public:
  // Both borrowed; `found` has an entry for each row.
  PlaceFinder(const CandidateEvidence& evidence, CandidatePlaces* found) : evidence_(evidence), found_(found) {}

  void Find(size_t j, const LabelCandidates& between) {
    const size_t outputs = evidence_.predictions.size() / found_->places.size();
    if (outputs == 1) {
      found_->separations[j] = between.high - between.low;
    }
    const auto row = static_cast<int64_t>(j);
    const absl::Span<const float> released = evidence_.released.row(row),
                                  directions = evidence_.output_directions.row(row);
    const double length = SquaredNorm(directions);
    if (!(length > 0) || !std::isfinite(length)) {
      return;  // The label moves nothing that was released.
    }
    // Without noise the residuals hold the label itself; what is asked is which of the two directions was taken.
    if (outputs > 1 && evidence_.label_mu == 0) {
      found_->places[j] = PlaceOnLine(evidence_, row, between);
      found_->exact[j] = 1;
      return;
    }
    // More outputs than numbers in a gradient cannot be told apart.
    if (outputs > released.size()) {
      return;
    }
    const ResidualEquations& equations = EquationsOf(directions, outputs);
    if (!equations.exact()) {
      return;
    }
    found_->exact[j] = 1;
    const absl::Span<const float> predictions = evidence_.predictions.subspan(j * outputs, outputs);
    const std::vector<double> residuals = equations.Solve(MatrixOf(directions, outputs), released);
    if (outputs == 1) {
      // One output: prediction - residual is the (noised) label, rescaled so that the candidates lie at 0 and 1.
      found_->places[j] = static_cast<float>((predictions[0] - residuals[0] - between.low) / found_->separations[j]);
      found_->margins[j] = static_cast<float>(CoefficientMargin(evidence_.rounding, residuals[0], predictions[0],
                                                                std::sqrt(length), evidence_.released.cols()) /
                                              found_->separations[j]);
      return;
    }
    // Of a target, from what the whole row is off by.
    const double margin =
        CoefficientMargin(evidence_.rounding, std::sqrt(SquaredNorm(released)), 1, 1, evidence_.released.cols()) *
        equations.sensitivity();
    PlaceClasses(j, {predictions, residuals, static_cast<size_t>(between.low), static_cast<size_t>(between.high)},
                 margin);
  }

 private:
  ConstMatrixView MatrixOf(absl::Span<const float> directions, size_t outputs) const {
    return {directions.data(), static_cast<int64_t>(outputs), evidence_.released.cols()};
  }

  // A head that is linear in the activations has the same directions for every row.
  const ResidualEquations& EquationsOf(absl::Span<const float> directions, size_t outputs) {
    if (!latest_.has_value() ||
        std::memcmp(latest_directions_.data(), directions.data(), directions.size() * sizeof(float)) != 0) {
      latest_.emplace(MatrixOf(directions, outputs));
      latest_directions_ = directions;
    }
    return *latest_;
  }

  void PlaceClasses(size_t j, const ClassRow& classes, double margin) const {
    if (evidence_.releases_posterior && evidence_.label_mu > 0) {
      found_->places[j] = static_cast<float>(classes.PlaceOfPosterior(evidence_.label_mu));
      found_->margins[j] = static_cast<float>(classes.MarginOfPosterior(evidence_.label_mu, margin));
      found_->exact[j] = classes.KeepsPosterior() ? 1 : 0;
    } else {
      found_->places[j] = static_cast<float>(classes.Place());
      found_->margins[j] = static_cast<float>(margin);
    }
  }

  const CandidateEvidence& evidence_;
  CandidatePlaces* const found_;
  absl::Span<const float> latest_directions_;
  std::optional<ResidualEquations> latest_;  // Of those.
};

}  // namespace

CandidatePlaces PlacesBetween(absl::Span<const LabelCandidates> candidates, const CandidateEvidence& evidence) {
  const size_t rows = candidates.size();
  CandidatePlaces found;
  found.places.assign(rows, std::numeric_limits<float>::quiet_NaN());
  found.separations.assign(rows, 1);
  found.exact.assign(rows, 0);
  found.margins.assign(rows, 0);
  // Threads pay from a million numbers on, of which each row may take a hundred operations a piece.
  constexpr int64_t kNumbersAThread = 1 << 20;
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const auto threads =
      static_cast<size_t>(std::clamp<int64_t>(evidence.output_directions.size() / kNumbersAThread, 1, cores));
  ParallelFor(threads, threads, [&](size_t share) {
    PlaceFinder finder(evidence, &found);
    for (size_t j = rows * share / threads; j < rows * (share + 1) / threads; ++j) {
      finder.Find(j, candidates[j]);
    }
  });
  return found;
}

}  // namespace splitveil
