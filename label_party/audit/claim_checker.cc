#include "label_party/audit/claim_checker.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"

#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/mu_lower_bound.h"

namespace splitveil {
namespace {

// `noise` (two tests) is made at the failing confidence alone: it is strong enough for that.
constexpr int kTests = 5, kReportedTests = 3;

int64_t Positives(const std::vector<uint8_t>& labels) { return std::count(labels.begin(), labels.end(), 1); }

// The error probability is shared among the tests.
double OfEachTest(double confidence, int tests) { return 1 - (1 - confidence) / tests; }

// `residual` less the noise of the row beside it, whose label is known.
LabelResidual LessNoiseOf(const LabelResidual& neighbour, uint8_t label, const LabelResidual& residual) {
  const double shift = neighbour.shift * label;
  return {residual.low - (neighbour.high - shift), residual.high - (neighbour.low - shift), residual.shift};
}

// What the stricter tests refute is refuted at 95%, too: both kinds together are wrong that seldom.
const MuLowerBoundOptions kReported = {
    OfEachTest(ClaimChecker::kConfidence + 1 - ClaimChecker::kFailingConfidence, kReportedTests), ClaimChecker::kDelta,
    ClaimChecker::kSeed};
const MuLowerBoundOptions kFailing = {OfEachTest(ClaimChecker::kFailingConfidence, kTests), ClaimChecker::kDelta,
                                      ClaimChecker::kSeed};

// 0 or 1, whichever label each row of flipped ones was made of.
std::vector<LabelResidual> LabelsReadIn(ConstMatrixView released, const ReleasingHead& head) {
  const std::vector<double> places = ConditionalLogRatios(released, head);
  std::vector<LabelResidual> labels(places.size());
  for (size_t j = 0; j < places.size(); ++j) {
    if (places[j] != 0) {
      const double label = places[j] > 0 ? 1 : 0;
      labels[j] = {label, label, 1};
    }
  }
  return labels;
}

}  // namespace

void ClaimChecker::Sums::Add(uint32_t slot, double factor, const LabelResidual& residual, double weight) {
  evidence.low[slot] += static_cast<float>(factor * residual.low);
  evidence.high[slot] += static_cast<float>(factor * residual.high);
  weights[slot] += static_cast<float>(weight);
}

// Only when a first release claims something: several floats an example are much for runs that claim nothing.
void ClaimChecker::Allocate() {
  const auto examples = static_cast<size_t>(sample_.size());
  labels_.resize(examples);
  for (Sums* sums : {&own_, &neighbour_}) {
    sums->evidence.low.resize(examples);
    sums->evidence.high.resize(examples);
    sums->weights.resize(examples);
  }
  own_shifts_.resize(examples);
  first_.low.assign(examples, std::numeric_limits<float>::quiet_NaN());
  first_.high = first_.low;
  latest_ = first_;
}

void ClaimChecker::Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence, const ReleasingHead& head) {
  const bool on_gradients = evidence.noise_negative.along >= 0;
  // Written so that NaN returns: a release that claims nothing cannot be refuted.
  if (!(evidence.sum_kl > 0 && std::isfinite(evidence.accumulated_sum_kl)) ||
      (!on_gradients && !evidence.has_label_noise && !evidence.has_flipped_labels) ||
      (!batch.candidates.empty() && !evidence.has_label_noise)) {
    return;
  }
  if (labels_.empty()) {
    Allocate();
    first_epoch_ = batch.epoch;
  }
  // Once for each epoch: an example has one release in it.
  if (!seen_epoch_.has_value() || *seen_epoch_ != batch.epoch) {
    seen_epoch_ = batch.epoch;
    seen_sum_kl_ += evidence.sum_kl;
  }
  claimed_sum_kl_ = std::isnan(evidence.run_sum_kl) ? evidence.accumulated_sum_kl : evidence.run_sum_kl;
  releases_repeat_ = evidence.releases_repeat;
  // More directions than components (outputs * d columns against d): residuals are told apart with a ridge, which
  // changes their scatter.
  is_scatter_exact_ = is_scatter_exact_ && evidence.label_directions.cols() <= evidence.released.cols();
  // Residuals remove what the model predicts: a score that ranked by features would refute any claim, and prove
  // nothing.
  const std::vector<LabelResidual> residuals =
      evidence.has_flipped_labels
          ? LabelsReadIn(evidence.released, head)
          : LabelResiduals(evidence.released, head, on_gradients ? 0 : std::sqrt(evidence.sum_kl));
  for (size_t j = 0; j < residuals.size(); ++j) {
    if (const std::optional<uint32_t> slot = sample_.SlotOf(batch.positions[j]); slot.has_value()) {
      labels_[*slot] = batch.pair_labels()[j];
    }
  }
  if (evidence.has_label_noise) {
    // How far apart the candidates of this run are: half_noise_mu_lower below needs it.
    for (const LabelResidual& residual : residuals) {
      squared_separations_ += residual.is_known() ? residual.shift * residual.shift / evidence.sum_kl : 0;
      separations_ += residual.is_known() ? 1 : 0;
    }
  }
  AddOwn(batch, residuals);
  // Releases made from one noised label repeat its noise in later epochs: there is nothing new to test.
  if (!releases_repeat_ || batch.epoch == first_epoch_) {
    AddNeighbours(batch, residuals);
  }
}

void ClaimChecker::AddOwn(const ReleasedBatch& batch, absl::Span<const LabelResidual> residuals) {
  for (size_t j = 0; j < residuals.size(); ++j) {
    const LabelResidual& own = residuals[j];
    const std::optional<uint32_t> slot = sample_.SlotOf(batch.positions[j]);
    if (!own.is_known() || !slot.has_value()) {
      continue;
    }
    // The same noise in every release: a mean removes rounding, a sum would only repeat it. Else weighted by its shift,
    // as the likelihood ratio of independent Gaussians is.
    const double factor = releases_repeat_ ? 1 : own.shift;
    own_.Add(*slot, factor, own, factor * factor);
    own_shifts_[*slot] += static_cast<float>(factor * own.shift);
    if (!releases_repeat_) {
      Ranges& seen = std::isnan(first_.low[*slot]) ? first_ : latest_;
      seen.low[*slot] = static_cast<float>(own.low);
      seen.high[*slot] = static_cast<float>(own.high);
    }
  }
}

void ClaimChecker::AddNeighbours(const ReleasedBatch& batch, absl::Span<const LabelResidual> residuals) {
  // Disjoint pairs: no noise enters two scores, so the scores are independent.
  for (size_t j = 0; j + 1 < residuals.size(); j += 2) {
    const LabelResidual &own = residuals[j], &neighbour = residuals[j + 1];
    const std::optional<uint32_t> slot = sample_.SlotOf(batch.positions[j]);
    if (own.is_known() && neighbour.is_known() && slot.has_value()) {
      neighbour_.Add(*slot, own.shift, LessNoiseOf(neighbour, batch.pair_labels()[j + 1], own),
                     2 * own.shift * own.shift);
    }
  }
}

// By which a sum of evidence is divided to have the variance 1.
double ClaimChecker::UnitOf(double weight) const { return releases_repeat_ ? weight : std::sqrt(weight); }

ClaimChecker::Scored ClaimChecker::Own() const {
  Scored scored;
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (own_.weights[i] > 0) {
      const auto unit = static_cast<float>(UnitOf(own_.weights[i]));
      scored.scores.push_back({own_.evidence.low[i] / unit, own_.evidence.high[i] / unit});
      scored.labels.push_back(labels_[i]);
      scored.centres.push_back(static_cast<double>(labels_[i]) * own_shifts_[i] / unit);
    }
  }
  return scored;
}

ClaimChecker::Scored ClaimChecker::Neighbour() const {
  Scored scored;
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (neighbour_.weights[i] > 0) {
      const float unit = std::sqrt(neighbour_.weights[i]);
      scored.scores.push_back({neighbour_.evidence.low[i] / unit, neighbour_.evidence.high[i] / unit});
      scored.labels.push_back(labels_[i]);
    }
  }
  return scored;
}

ClaimChecker::Scored ClaimChecker::Difference() const {
  Scored scored;
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (!std::isnan(latest_.low[i])) {
      // The label cancels in the difference, so that only noise remains; shared noise cancels, too.
      const float unit = std::sqrt(2.0F);
      scored.scores.push_back({(first_.low[i] - latest_.high[i]) / unit, (first_.high[i] - latest_.low[i]) / unit});
      scored.labels.push_back(labels_[i]);
    }
  }
  return scored;
}

// Of one class, in standard deviations of half the noise.
OpenScores ClaimChecker::OpenOf(const Scored& own, uint8_t label) {
  constexpr double kStep = 0.25, kWidest = 64;  // Wider ones tell nothing.
  OpenScores open;
  for (size_t i = 0; i < own.scores.size(); ++i) {
    if (own.labels[i] == label) {
      const double width = 2 * (static_cast<double>(own.scores[i].high) - own.scores[i].low);
      ++open[width < kWidest ? kStep * std::ceil(width / kStep) : kWidest];  // NaN, too.
    }
  }
  return open;
}

// The scores of one class less what their label adds are N(0, 1) if there is as much noise as the run claims. So how
// many are small tests the amount of noise without comparing classes.
void ClaimChecker::AddNoiseTest(const Scored& own, uint8_t label, ClaimCheckRow& row) {
  int64_t within = 0, count = 0;
  for (size_t i = 0; i < own.scores.size(); ++i) {
    if (own.labels[i] == label) {
      const double low = own.scores[i].low - own.centres[i], high = own.scores[i].high - own.centres[i];
      within += -kNoiseWithin <= low && high <= kNoiseWithin ? 1 : 0;
      ++count;
    }
  }
  const double lower = MuLowerOfNoise(row.claimed_mu, within, count, 1 - kFailing.confidence);
  row.failing_mu_lower = std::max(row.failing_mu_lower, lower);
  if (lower > row.mu_lower) {
    row.test = "noise";
    row.mu_lower = lower;
    row.true_positive_rate_low = 0;  // This test has no threshold.
    row.false_positive_rate_high = 1;
    row.examples = count;
    row.positives = label * count;
  }
}

std::optional<ClaimCheckRow> ClaimChecker::Finish() const {
  ClaimCheckRow row;
  row.confidence = kConfidence;
  row.failing_confidence = kFailingConfidence;
  row.delta = kDelta;
  row.claimed_mu = std::sqrt(claimed_sum_kl_);
  const absl::StatusOr<GaussianPrivacy> claimed = GaussianPrivacy::FromMu(row.claimed_mu);
  row.claimed_epsilon = claimed.ok() ? claimed->EpsilonAt(kDelta) : std::numeric_limits<double>::quiet_NaN();
  const std::pair<const char*, Scored> tests[] = {
      {"own", Own()}, {"neighbour", Neighbour()}, {"difference", Difference()}};
  // Three tests because faults differ: too little noise, noise that rows share, and noise that epochs repeat.
  for (const auto& [name, scored] : tests) {
    const absl::StatusOr<MuLowerBound> bound = LowerBoundMu(scored.scores, scored.labels, kReported);
    const absl::StatusOr<MuLowerBound> failed_by = LowerBoundMu(scored.scores, scored.labels, kFailing);
    if (!bound.ok() || !failed_by.ok()) {  // Too few examples.
      continue;
    }
    // Both bounds hold at once (kReported leaves room for kFailing), so the larger one may be reported.
    const MuLowerBound& larger = failed_by->mu_lower > bound->mu_lower ? *failed_by : *bound;
    row.epsilon_lower = std::max({row.epsilon_lower, bound->epsilon_lower, failed_by->epsilon_lower});
    row.failing_mu_lower = std::max(row.failing_mu_lower, failed_by->mu_lower);
    if (row.test.empty() || larger.mu_lower > row.mu_lower) {
      row.test = name;
      row.mu_lower = larger.mu_lower;
      row.true_positive_rate_low = larger.true_positive_rate_low;
      row.false_positive_rate_high = larger.false_positive_rate_high;
      row.positives = Positives(scored.labels);
      row.examples = static_cast<int64_t>(scored.labels.size());
    }
  }
  // No test could be made: silence, not a claim that held.
  if (row.test.empty()) {
    return std::nullopt;
  }
  if (separations_ > 0 && is_scatter_exact_) {
    for (const uint8_t label : {0, 1}) {
      AddNoiseTest(tests[0].second, label, row);
    }
  }
  // What the first test would find if the noise were half of what is claimed, for labels as far apart as those of this
  // run. Without `noise`: it would need only fifty examples, too few to find noise that examples share.
  const double separation = separations_ == 0 ? 1 : std::sqrt(squared_separations_ / static_cast<double>(separations_));
  // What half the noise would show, so that "not refuted" can be told from "could not have been refuted": by too few
  // examples, or because rounding hides them.
  const bool adds_up = separations_ > 0 && !releases_repeat_;
  const double seen_mu = adds_up ? std::sqrt(std::min(seen_sum_kl_, claimed_sum_kl_)) : row.claimed_mu;
  const Scored& own = tests[0].second;
  row.half_noise_mu_lower = ExpectedMuLower(2 * separation * seen_mu, OpenOf(own, 1), OpenOf(own, 0),
                                            OfEachTest(1 - kFalseAlarmRisk, kReportedTests));
  return row;
}

}  // namespace splitveil
