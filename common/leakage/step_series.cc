#include "common/leakage/step_series.h"

#include <algorithm>
#include <cmath>

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
