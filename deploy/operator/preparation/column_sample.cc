#include "deploy/operator/preparation/column_sample.h"

#include <algorithm>
#include <cmath>

namespace splitveil {
namespace {

constexpr uint64_t kSampleSeed = 1;  // Any, always the same: data prepared twice are the same bytes.

struct Range {
  double from = 0, to = 0;
};

// The innermost numbers of `sorted`, not empty, beyond which no more than kLowerQuantile of them lie on each side.
Range InnerRange(const std::vector<double>& sorted) {
  const double last = static_cast<double>(sorted.size() - 1);
  const auto from = static_cast<size_t>(std::ceil(ColumnSample::kLowerQuantile * last));
  const size_t to = sorted.size() - 1 - from;
  return from <= to ? Range{sorted[from], sorted[to]} : Range{sorted.front(), sorted.back()};
}

}  // namespace

ColumnSample::ColumnSample(uint64_t column) : draws_(kSampleSeed, column) {}

void ColumnSample::Add(double number) {
  least_ = count_ == 0 ? number : std::min(least_, number);
  greatest_ = count_ == 0 ? number : std::max(greatest_, number);
  ++count_;
  if (sample_.size() < kSize) {
    sample_.push_back(number);
  } else if (const uint64_t place = draws_.Below(count_); place < kSize) {
    sample_[place] = number;
  }
}

NumberSummary ColumnSample::Summarize() const {
  std::vector<double> sorted = sample_;
  std::sort(sorted.begin(), sorted.end());
  const Range inner = InnerRange(sorted);
  NumberSummary summary{least_, inner.from, sorted[(sorted.size() - 1) / 2], inner.to, greatest_, inner.from, inner.to};
  if (inner.from < inner.to) {
    return summary;
  }
  sorted.erase(std::remove(sorted.begin(), sorted.end(), inner.from), sorted.end());
  const Range others = sorted.empty() ? Range{least_, greatest_} : InnerRange(sorted);
  summary.robust_minimum = std::min(inner.from, others.from);
  summary.robust_maximum = std::max(inner.from, others.to);
  return summary;
}

}  // namespace splitveil
