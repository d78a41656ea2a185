#include "label_party/audit/leak_recorder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"
#include "common/leakage/leak_figures.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Inverted below 0.5, as an adversary would.
double StrengthOf(const StepSeries& batch_aucs) { return batch_aucs.LeakOf().p95; }
double StrengthOf(const EpochLeakRow& row) { return std::isnan(row.auc) ? 0 : InvertedAuc(row.auc); }

// The names that ledgers use.
const char* NameOf(Observer observer) { return observer == Observer::kLabelParty ? "label_party" : "nonlabel_party"; }

constexpr double kNormQuantile = 0.995;

// The upper end of the bins for norms: most of the values of both classes lie below. 1 if all are 0.
double NormRange(absl::Span<const float> negatives, absl::Span<const float> positives) {
  std::vector<double> all(negatives.begin(), negatives.end());
  all.insert(all.end(), positives.begin(), positives.end());
  // The largest values are cut off: one long gradient would squeeze all others into the first bin.
  const double range = NearestRankQuantile(std::move(all), kNormQuantile);
  return range > 0 ? range : 1;
}

// Null if the attack has not run.
const std::vector<float>* ScoresOf(v1::Attack attack, absl::Span<const BatchScores> own) {
  const auto found =
      std::find_if(own.begin(), own.end(), [&](const BatchScores& scores) { return scores.attack == attack; });
  return found == own.end() ? nullptr : &found->scores;
}

}  // namespace

absl::StatusOr<std::optional<double>> LeakRecorder::RecordBatch(const ObservedScores& observed,
                                                                const ReleasedBatch& batch) {
  // Hint rows are excluded: the adversary was given their labels.
  absl::Span<const uint32_t> left_out = RowsLeftOut(observed.attack, batch.hint_rows);
  absl::Span<const float> scores = observed.scores;
  absl::Span<const uint8_t> labels = batch.LabelsFor(observed.attack.attack);
  std::vector<float> sampled_scores;
  std::vector<uint8_t> sampled_labels;
  // Scores that add up releases are such only of examples that the attack remembers.
  if (const ExampleSample& sample = SampleOf(observed.observer);
      !sample.is_all() && TraitsOf(observed.attack.attack).cumulative()) {
    for (const uint32_t row : MeasuredRows(batch.positions, left_out, sample)) {
      sampled_scores.push_back(scores[row]);
      sampled_labels.push_back(labels[row]);
    }
    scores = sampled_scores;
    labels = sampled_labels;
    left_out = {};
  }
  const absl::StatusOr<double> auc = LeakAuc(scores, labels, left_out);
  // A batch of one class has no AUC.
  if (absl::IsFailedPrecondition(auc.status())) {
    return std::nullopt;
  }
  if (!auc.ok()) {
    return auc.status();
  }
  LeakRow row;
  row.step = batch.step;
  row.observer = NameOf(observed.observer);
  row.layer = observed.layer;
  row.attack = AttackName(observed.attack);
  row.auc = *auc;
  row.examples = static_cast<int64_t>(scores.size() - left_out.size());
  figures_[observed.observer].series[{row.layer, row.attack}].Add(*auc);
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(row));
  return *auc;
}

void LeakRecorder::Pool(const ObservedScores& observed, const ReleasedBatch& batch) {
  figures_[observed.observer].pool.Add(
      observed.layer, observed.attack, {observed.scores.begin(), observed.scores.end()},
      batch.LabelsFor(observed.attack.attack),
      MeasuredRows(batch.positions, RowsLeftOut(observed.attack, batch.hint_rows), SampleOf(observed.observer)));
}

bool LeakRecorder::has_pooled(Observer observer) const {
  const auto found = figures_.find(observer);
  return found != figures_.end() && !found->second.pool.empty();
}

absl::Status LeakRecorder::RecordEpoch(Observer observer, uint32_t epoch, const EpochBounds& bounds) {
  absl::Status status;
  for (EpochLeakRow& row : figures_[observer].pool.Finish(epoch, bounds)) {
    status.Update(Record(observer, std::move(row)));
  }
  return status;
}

absl::Status LeakRecorder::RecordRun(AttackVariant attack, uint32_t epoch, absl::Span<const float> scores,
                                     absl::Span<const uint8_t> labels) {
  EpochLeakRow row = MeasureEpochLeak(scores, labels);
  row.epoch = epoch;
  row.layer = "cut";
  row.attack = AttackName(attack);
  return Record(Observer::kNonLabelParty, std::move(row));
}

absl::Status LeakRecorder::Record(Observer observer, EpochLeakRow row) {
  row.observer = NameOf(observer);
  figures_[observer].epoch_leaks[{row.layer, row.attack}] = row;
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(row));
  // Only own attacks are held against the bound: what the peer submits as an attack on gradients may be made of
  // anything, its own features included.
  const MeasuredAuc measured = {row.attack, row.epoch, row.auc, row.examples, row.positives};
  if (observer != Observer::kLabelParty || !ExceedsGaussianAucBound(measured, row.gaussian_auc_bound)) {
    return absl::OkStatus();
  }
  ++bound_exceeded_;
  // One event an attack, however many epochs exceed: the ledger has the figures of each.
  if (!attacks_beyond_.insert({row.layer, row.attack}).second) {
    return absl::OkStatus();
  }
  return ledger_->RecordEvent(
      "bound_exceeded",
      absl::StrFormat("epoch %d: %s at %s: AUC at least %.4f (lower 99.99%% limit), the bound is %.4f", row.epoch + 1,
                      row.attack, row.layer, CertainAuc(measured), row.gaussian_auc_bound));
}

template <typename Leaks>
Leaks LeakRecorder::Merged(Leaks Figures::*leaks) const {
  Leaks merged;
  for (const auto& [observer, figures] : figures_) {
    for (const auto& [key, found] : figures.*leaks) {
      const auto [kept, is_new] = merged.try_emplace(key, found);
      // Both parties may have run the same attack: the stronger result is what an adversary reaches.
      if (!is_new && StrengthOf(found) > StrengthOf(kept->second)) {
        kept->second = found;
      }
    }
  }
  return merged;
}

template BatchLeaks LeakRecorder::Merged(BatchLeaks Figures::*leaks) const;
template EpochLeaks LeakRecorder::Merged(EpochLeaks Figures::*leaks) const;

std::string LeakRecorder::latest() const {
  const auto own = figures_.find(Observer::kLabelParty);
  if (own == figures_.end()) {
    return "";
  }
  std::string text;
  for (v1::Attack attack : kProgressAttacks) {
    const auto series = own->second.series.find({"cut", AttackName(attack)});
    if (series != own->second.series.end()) {
      absl::StrAppend(&text, ProgressFigure(AttackName(attack), series->second.latest()), " ");
    }
  }
  return text.empty() ? text : absl::StrCat(text, "at cut");
}

void EpochBounds::Add(double sum_kl, double accumulated_sum_kl, bool of_labels) {
  of_labels_ = of_labels_ || of_labels;
  ++steps_;
  gaussian_sum_ += GaussianAucBound(sum_kl);
  theorem1_sum_ += AucBound(sum_kl);
  accumulated_sum_kl_ = accumulated_sum_kl;
}

AucBounds EpochBounds::For(const std::string& layer, v1::Attack attack) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const AttackTraits traits = TraitsOf(attack);
  // No bound: other layers mix in the peer's own features; attacks on activations are not bounded by noise on
  // gradients; and noise on labels bounds only what is added to the prediction, hence only attacks that remove the
  // prediction.
  if (layer != "cut" || !traits.reads_gradients() || steps_ == 0 ||
      (of_labels_ && traits.needs != SideInformation::kReleasingHead)) {
    return {kNone, kNone};
  }
  // A cumulative attack has all releases of an example so far, any other attack has one: on average over the steps.
  if (traits.cumulative()) {
    return {GaussianAucBound(accumulated_sum_kl_), AucBound(accumulated_sum_kl_)};
  }
  const double steps = static_cast<double>(steps_);
  return {gaussian_sum_ / steps, theorem1_sum_ / steps};
}

EpochLeakRow MeasureEpochLeak(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EpochLeakRow row;
  row.examples = static_cast<int64_t>(scores.size());
  row.positives = std::count(labels.begin(), labels.end(), 1);
  row.gaussian_auc_bound = row.auc_bound = kNone;
  LeakFigures figures;
  figures.auc = figures.tpr_at_1_percent_fpr = figures.tpr_at_01_percent_fpr = {kNone, kNone, kNone};
  // With one class there is no AUC: the figures stay NaN, the row still counts examples.
  if (const absl::StatusOr<LeakFigures> measured = MeasureLeak(scores, labels); measured.ok()) {
    figures = *measured;
  }
  row.auc = figures.auc.value;
  row.auc_low = figures.auc.low;
  row.auc_high = figures.auc.high;
  row.tpr_1pct = figures.tpr_at_1_percent_fpr.value;
  row.tpr_1pct_low = figures.tpr_at_1_percent_fpr.low;
  row.tpr_1pct_high = figures.tpr_at_1_percent_fpr.high;
  row.tpr_01pct = figures.tpr_at_01_percent_fpr.value;
  row.tpr_01pct_low = figures.tpr_at_01_percent_fpr.low;
  row.tpr_01pct_high = figures.tpr_at_01_percent_fpr.high;
  return row;
}

void EpochPool::Add(const std::string& layer, AttackVariant attack, std::vector<float> scores,
                    absl::Span<const uint8_t> labels, absl::Span<const uint32_t> rows) {
  Series& series = series_[{layer, attack}];
  const AttackTraits traits = TraitsOf(attack.attack);
  // Scores of one batch are in units of its gradients. Log ratios and sums of them have a unit of their own, and keep
  // it.
  if (!traits.cumulative() && traits.needs != SideInformation::kReleasingHead) {
    StandardizeScores(scores);
  }
  for (const uint32_t row : rows) {
    // With one score that is not finite the whole epoch would have no AUC.
    if (std::isfinite(scores[row])) {
      series.scores.push_back(scores[row]);
      series.labels.push_back(labels[row]);
    }
  }
}

std::vector<EpochLeakRow> EpochPool::Finish(uint32_t epoch, const EpochBounds& bounds) {
  std::vector<EpochLeakRow> rows;
  for (const auto& [key, series] : series_) {
    const auto& [layer, attack] = key;
    EpochLeakRow row = MeasureEpochLeak(series.scores, series.labels);
    row.epoch = epoch;
    row.layer = layer;
    row.attack = AttackName(attack);
    const AucBounds allowed = bounds.For(layer, attack.attack);
    row.gaussian_auc_bound = allowed.gaussian;
    row.auc_bound = allowed.theorem1;
    rows.push_back(std::move(row));
  }
  // An epoch's pool is its own: each example is released once in it, so that the scores are independent.
  series_.clear();
  return rows;
}

void ClassHistograms::AddScores(const std::string& quantity, absl::Span<const float> scores, const ReleasedBatch& batch,
                                absl::Span<const uint32_t> rows) {
  Values& values = values_[quantity];
  for (const uint32_t row : rows) {
    if (std::isfinite(scores[row])) {
      values[batch.labels[row]].push_back(scores[row]);
    }
  }
}

void ClassHistograms::Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence,
                          absl::Span<const BatchScores> own, const ExampleSample& sample) {
  const std::vector<uint32_t> rows = MeasuredRows(batch.positions, RowsLeftOut(v1::COSINE, batch.hint_rows), sample);
  const std::vector<float>* const norms = ScoresOf(v1::NORM, own);
  const std::vector<float>* const cosines = ScoresOf(v1::COSINE, own);
  const absl::Span<const float> clean_positive = batch.CleanPositive(evidence.clean);
  NormAndCosineScores computed;
  // Scores that the attacks have made already are used again: computing them is a pass over the batch.
  const bool scored = norms != nullptr && (cosines != nullptr || clean_positive.empty());
  if (!scored) {
    computed = ScoreNormsAndCosines(evidence.released, clean_positive);
  }
  // Before and after the protection, as in the paper's figures: what the noise does to the two classes.
  const NormAndCosineScores clean = ScoreNormsAndCosines(evidence.clean, clean_positive);
  AddScores("norm", scored ? *norms : computed.norms, batch, rows);
  AddScores("clean_norm", clean.norms, batch, rows);
  if (!clean_positive.empty()) {
    AddScores("cosine", scored && cosines != nullptr ? *cosines : computed.cosines, batch, rows);
    AddScores("clean_cosine", clean.cosines, batch, rows);
  }
}

std::vector<DistributionRow> ClassHistograms::Finish(uint32_t epoch) {
  std::vector<DistributionRow> rows;
  for (const auto& [quantity, values] : values_) {
    const bool cosine = absl::StrContains(quantity, "cosine");
    const double low = cosine ? -1 : 0;
    const double high = cosine ? 1 : NormRange(values[0], values[1]);
    const double width = (high - low) / static_cast<double>(kBins);
    for (int64_t label = 0; label < 2; ++label) {
      std::array<int64_t, kBins> counts = {};
      for (float value : values[label]) {
        const auto bin = static_cast<int64_t>(std::floor((value - low) / width));
        // Values above the range, and the upper end itself, go into the last bin.
        ++counts[std::clamp<int64_t>(bin, 0, kBins - 1)];
      }
      for (int64_t bin = 0; bin < kBins; ++bin) {
        if (counts[bin] > 0) {
          const double begin = low + width * static_cast<double>(bin);
          rows.push_back({epoch, quantity, label, bin, begin, begin + width, counts[bin]});
        }
      }
    }
  }
  values_.clear();
  return rows;
}

}  // namespace splitveil
