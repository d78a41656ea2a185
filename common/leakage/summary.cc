#include "common/leakage/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

constexpr double kBins = StepSeries::kMost;

// Upper edge of the bin in which the value of this rank, from 1, lies; `counts` from the lowest bin to the highest.
double EdgeOf(const std::vector<int64_t>& counts, int64_t rank, double lowest, double width) {
  int64_t below = 0;
  size_t bin = 0;
  while (bin + 1 < counts.size() && below + counts[bin] < rank) {
    below += counts[bin++];
  }
  return lowest + static_cast<double>(bin + 1) * width;
}

}  // namespace

double InvertedAuc(double auc) { return 0.5 + std::abs(auc - 0.5); }

std::string ProgressFigure(absl::string_view attack, double auc) {
  return absl::StrFormat("%s %.2f", attack, InvertedAuc(auc));
}

LeakSummary SummarizeLeak(const std::vector<double>& aucs) {
  LeakSummary summary;
  summary.steps = static_cast<int64_t>(aucs.size());
  if (aucs.empty()) {
    return summary;
  }
  const double steps = static_cast<double>(aucs.size());
  std::vector<double> leaks;
  leaks.reserve(aucs.size());
  // Inverted batch by batch: an adversary may turn each batch's scores round by itself.
  for (double auc : aucs) {
    leaks.push_back(InvertedAuc(auc));
    summary.mean += leaks.back() / steps;
  }
  double squares = 0;
  for (double leak : leaks) {
    squares += (leak - summary.mean) * (leak - summary.mean);
  }
  summary.mean_ci95 = MeanInterval95(squares, summary.steps);
  summary.p95 = NearestRankQuantile(std::move(leaks), 0.95);
  return summary;
}

double MeanInterval95(double squares, int64_t count) {
  constexpr double kNormalQuantile975 = 1.959963984540054;
  const auto values = static_cast<double>(count);
  return count < 2 ? 0 : kNormalQuantile975 * std::sqrt(squares / (values - 1) / values);
}

int64_t NearestRank(int64_t count, double q) {
  // The tolerance keeps q = 0.95 of 20 values, 19.000000000000004 in binary, at rank 19.
  const auto size = static_cast<double>(count);
  return static_cast<int64_t>(std::clamp(std::ceil(q * size - size * 1e-12), 1.0, size));
}

double NearestRankQuantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto nth = values.begin() + (NearestRank(static_cast<int64_t>(values.size()), q) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

Guessing GuessingOver(double positives, double negatives) {
  if (!(positives > 0) || !(negatives > 0)) {
    return {1, 1};
  }
  constexpr double kNormal975 = 1.959963984540054;            // Two-sided 95% of the standard normal distribution,
  constexpr double kNormalMeanDistance = 0.7978845608028654;  // and its mean distance from 0: sqrt(2 / pi).
  const double deviation = std::sqrt((positives + negatives + 1) / (12 * positives * negatives));
  return {std::min(1.0, 0.5 + kNormalMeanDistance * deviation), std::min(1.0, 0.5 + kNormal975 * deviation)};
}

StepSeries::StepSeries(std::initializer_list<double> values) {
  for (const double value : values) {
    Add(value);
  }
}

void StepSeries::Add(double value) {
  latest_ = std::isnan(value) ? 1 : std::clamp(value, 0.0, 1.0);
  if (counts_.empty() && values_.size() < kMost) {
    values_.push_back(latest_);
    ++size_;
    return;
  }
  // From here on bins: a run may have millions of steps, and memory must not grow with them.
  if (counts_.empty()) {
    counts_.resize(kMost);
    size_ = 0;
    for (const double known : values_) {
      Count(known);
    }
    values_ = {};
  }
  Count(latest_);
}

void StepSeries::Count(double value) {
  ++counts_[std::min(static_cast<size_t>(value * kBins), kMost - 1)];
  ++size_;
  const double leak = InvertedAuc(value);
  const double apart = leak - leak_mean_;  // Welford, Technometrics 1962.
  leak_mean_ += apart / static_cast<double>(size_);
  leak_squares_ += apart * (leak - leak_mean_);
}

double StepSeries::Quantile(double q) const {
  return counts_.empty() ? NearestRankQuantile(values_, q) : EdgeOf(counts_, NearestRank(size_, q), 0, 1 / kBins);
}

LeakSummary StepSeries::LeakOf() const {
  if (counts_.empty()) {
    return SummarizeLeak(values_);
  }
  constexpr size_t kHalf = kMost / 2;
  std::vector<int64_t> inverted(kHalf);  // Bins from 0.5 to 1.
  for (size_t bin = 0; bin < kHalf; ++bin) {
    // An AUC below 0.5 leaks as much as its mirror image, so both bins count for one.
    inverted[bin] = counts_[kHalf + bin] + counts_[kHalf - 1 - bin];
  }
  LeakSummary summary;
  summary.steps = size_;
  summary.mean = leak_mean_;
  summary.mean_ci95 = MeanInterval95(leak_squares_, size_);
  summary.p95 = EdgeOf(inverted, NearestRank(size_, 0.95), 0.5, 1 / kBins);
  return summary;
}

}  // namespace splitveil
