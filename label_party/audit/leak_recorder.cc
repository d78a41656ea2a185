#include "label_party/audit/leak_recorder.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/bounds.h"
#include "common/leakage/leak_auc.h"
#include "common/leakage/summary.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Inverted below 0.5, as an adversary would.
double StrengthOf(const StepSeries& batch_aucs) { return batch_aucs.LeakOf().p95; }
double StrengthOf(const EpochLeakRow& row) { return std::isnan(row.auc) ? 0 : InvertedAuc(row.auc); }

// As ledgers write it.
const char* NameOf(Observer observer) { return observer == Observer::kLabelParty ? "label_party" : "nonlabel_party"; }

}  // namespace

absl::StatusOr<std::optional<double>> LeakRecorder::RecordBatch(const ObservedScores& observed,
                                                                const ReleasedBatch& batch) {
  const absl::Span<const uint32_t> left_out = RowsLeftOut(observed.attack, batch.hint_rows);
  const absl::StatusOr<double> auc = LeakAuc(observed.scores, batch.LabelsFor(observed.attack.attack), left_out);
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
  row.examples = static_cast<int64_t>(batch.labels.size() - left_out.size());
  figures_[observed.observer].series[{row.layer, row.attack}].Add(*auc);
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(row));
  return *auc;
}

void LeakRecorder::Pool(const ObservedScores& observed, const ReleasedBatch& batch) {
  figures_[observed.observer].pool.Add(
      observed.layer, observed.attack, {observed.scores.begin(), observed.scores.end()},
      batch.LabelsFor(observed.attack.attack), RowsLeftOut(observed.attack, batch.hint_rows));
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
  // What the peer submits as an attack on gradients may be made of anything.
  const double certain = CertainAuc(row.auc, row.auc_low, row.auc_high);
  if (observer != Observer::kLabelParty || !ExceedsGaussianAucBound(certain, row.gaussian_auc_bound)) {
    return absl::OkStatus();
  }
  ++bound_exceeded_;
  if (!attacks_beyond_.insert({row.layer, row.attack}).second) {
    return absl::OkStatus();
  }
  return ledger_->RecordEvent(
      "bound_exceeded",
      absl::StrFormat("epoch %d: %s at %s: AUC at least %.4f (lower 99.99%% limit), the bound is %.4f", row.epoch + 1,
                      row.attack, row.layer, certain, row.gaussian_auc_bound));
}

template <typename Leaks>
Leaks LeakRecorder::Merged(Leaks Figures::*leaks) const {
  Leaks merged;
  for (const auto& [observer, figures] : figures_) {
    for (const auto& [key, found] : figures.*leaks) {
      const auto [kept, is_new] = merged.try_emplace(key, found);
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

}  // namespace splitveil
