#include "label_party/audit/epoch_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"
#include "common/leakage/leak_figures.h"

namespace splitveil {

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
  if (layer != "cut" || !traits.reads_gradients() || steps_ == 0 ||
      (of_labels_ && traits.needs != SideInformation::kReleasingHead)) {
    return {kNone, kNone};
  }
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
                    absl::Span<const uint8_t> labels, absl::Span<const uint32_t> left_out) {
  Series& series = series_[{layer, attack}];
  if (series.scores.size() + scores.size() > kMaxExamples) {
    return;
  }
  const AttackTraits traits = TraitsOf(attack.attack);
  if (!traits.cumulative() && traits.needs != SideInformation::kReleasingHead) {
    StandardizeScores(scores);
  }
  for (size_t j = 0; j < scores.size(); ++j) {
    // A score that is not finite would leave the whole epoch without an AUC.
    if (std::isfinite(scores[j]) && std::find(left_out.begin(), left_out.end(), j) == left_out.end()) {
      series.scores.push_back(scores[j]);
      series.labels.push_back(labels[j]);
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
  series_.clear();
  return rows;
}

}  // namespace splitveil
