#include "deploy/operator/preparation/number_scaling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "common/dataset/column_encoding.h"

namespace splitveil {
namespace {

constexpr size_t kPercentiles = 100;
constexpr uint64_t kSampleSeed = 1;  // Any, always the same: data prepared twice are the same bytes.

struct Range {
  double from = 0, to = 0;
};

// The innermost numbers of `sorted`, not empty, beyond which no more than kLowerQuantile of them lie on each side.
Range InnerRange(const std::vector<double>& sorted) {
  const double last = static_cast<double>(sorted.size() - 1);
  // Rounded inwards: of a small sample at least one number on each side is beyond.
  const auto from = static_cast<size_t>(std::ceil(ColumnSample::kLowerQuantile * last));
  const size_t to = sorted.size() - 1 - from;
  return from <= to ? Range{sorted[from], sorted[to]} : Range{sorted.front(), sorted.back()};
}

}  // namespace

ColumnSample::ColumnSample(uint64_t column) : sample_(kSize, SeededDraws(kSampleSeed, column)) {}

void ColumnSample::Add(double number) {
  least_ = empty() ? number : std::min(least_, number);
  greatest_ = empty() ? number : std::max(greatest_, number);
  sample_.Add(number);
}

NumberSummary ColumnSample::Summarize() const {
  std::vector<double> sorted = sample_.numbers();
  std::sort(sorted.begin(), sorted.end());
  const Range inner = InnerRange(sorted);
  NumberSummary summary{least_, inner.from, sorted[(sorted.size() - 1) / 2], inner.to, greatest_, inner.from, inner.to};
  if (inner.from < inner.to) {
    return summary;
  }
  // Nearly constant: without the common value, the others' quantiles say how far the scale must reach.
  // A column that is 0 in 99% of the rows would else get a range of no width, and all that differs would be clipped
  // alike.
  sorted.erase(std::remove(sorted.begin(), sorted.end(), inner.from), sorted.end());
  const Range others = sorted.empty() ? Range{least_, greatest_} : InnerRange(sorted);
  summary.robust_minimum = std::min(inner.from, others.from);
  summary.robust_maximum = std::max(inner.from, others.to);
  return summary;
}

std::vector<double> ColumnSample::Percentiles() const {
  std::vector<double> sorted = sample_.numbers();
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> percentiles(kPercentiles + 1);
  for (size_t i = 0; i <= kPercentiles; ++i) {
    const double rank = static_cast<double>(i * (sorted.size() - 1)) / kPercentiles;
    const auto below = static_cast<size_t>(rank);
    const double beyond = rank - static_cast<double>(below);
    // Weighted, because the difference of two doubles may overflow; clamped, because equal ones must stay equal.
    const double low = sorted[below], high = sorted[std::min(below + 1, sorted.size() - 1)];
    percentiles[i] = std::clamp(low * (1 - beyond) + high * beyond, low, high);
  }
  // The sample may have missed the extremes; the knots must reach them, or they would share a rank with others.
  percentiles.front() = least_;
  percentiles.back() = greatest_;
  return percentiles;
}

double ColumnSample::MedianBetween(double from, double to) const {
  std::vector<double> inside;
  std::copy_if(sample_.numbers().begin(), sample_.numbers().end(), std::back_inserter(inside),
               [&](double number) { return from < number && number < to; });
  const auto middle = inside.begin() + static_cast<ptrdiff_t>(inside.size() / 2);
  std::nth_element(inside.begin(), middle, inside.end());
  return inside.empty() ? std::numeric_limits<double>::quiet_NaN() : *middle;
}

namespace {

// Of a proposal: what the median's place keeps from an end of the range, and what the middle half of the numbers fills.
constexpr double kLeastPlace = 0.125, kLeastSpread = 0.1;
constexpr size_t kLeastDistinct = 10;

}  // namespace

v1::TableSchema::Scaling ProposedScaling(absl::FunctionRef<double(double)> quantile) {
  const double from = quantile(ColumnSample::kLowerQuantile), to = quantile(ColumnSample::kUpperQuantile);
  std::vector<double> inside;
  size_t distinct = 0;
  for (size_t i = 1; i < kPercentiles; ++i) {
    const double number = quantile(static_cast<double>(i) / kPercentiles);
    if (from < number && number < to) {
      distinct += inside.empty() || inside.back() != number ? 1 : 0;
      inside.push_back(number);
    }
  }
  // A handful of levels are codes or counts: their distances mean something, and ranks would even them out.
  if (distinct < kLeastDistinct) {
    return v1::TableSchema::ROBUST;
  }
  const auto place = [&](double share) {
    return PlaceBetween(inside[static_cast<size_t>(share * static_cast<double>(inside.size() - 1))], from, to);
  };
  const double middle = place(0.5);
  // By the median's place and not by moments: a single 1e6 would decide the skewness of a whole column.
  const bool skewed = middle < kLeastPlace || middle > 1 - kLeastPlace;
  const double spread = skewed && middle > 0 && middle < 1
                            ? LogPlace(place(0.75), middle) - LogPlace(place(0.25), middle)
                            : place(0.75) - place(0.25);
  return spread < kLeastSpread ? v1::TableSchema::QUANTILE : skewed ? v1::TableSchema::LOG : v1::TableSchema::ROBUST;
}

void FitScaling(const ColumnSample& sample, v1::TableSchema::Scaling kind, v1::NumericScaling& scaling) {
  scaling.set_scaling(kind);
  const NumberSummary summary = sample.empty() ? NumberSummary() : sample.Summarize();
  const std::vector<double> percentiles = sample.empty() ? std::vector<double>(2) : sample.Percentiles();
  if (kind == v1::TableSchema::QUANTILE) {
    scaling.set_minimum(percentiles.front());
    scaling.set_maximum(percentiles.back());
    scaling.mutable_knots()->Assign(percentiles.begin(), percentiles.end());
  } else if (kind != v1::TableSchema::MIN_MAX) {
    scaling.set_minimum(summary.robust_minimum);
    scaling.set_maximum(summary.robust_maximum);
  }
  const double from = scaling.minimum(), to = scaling.maximum();
  if (kind == v1::TableSchema::LOG && !sample.empty()) {
    const bool inside = from < summary.median && summary.median < to;
    // Where half of the numbers are at an end of the range, the logarithm bends around the median of the rest.
    if (const double middle = inside ? summary.median : sample.MedianBetween(from, to); !std::isnan(middle)) {
      scaling.set_midpoint(middle);
    }
  }
  if (kind != v1::TableSchema::MIN_MAX) {
    // What pushes a unit least; that it is missing, an input of its own says.
    scaling.set_missing_value(ScaledNumber(scaling, summary.median));
  }
  if (sample.empty()) {
    return;
  }
  scaling.set_least(summary.least);
  scaling.set_lower_quantile(summary.lower_quantile);
  scaling.set_median(summary.median);
  scaling.set_upper_quantile(summary.upper_quantile);
  scaling.set_greatest(summary.greatest);
  // Frequent numbers, and both ends of the range, have a bucket of their own, so that a flag of 1 is not one of 0.001.
  const auto before = [](double number) { return std::nextafter(number, -std::numeric_limits<double>::infinity()); };
  std::vector<double> edges = {from, before(to)};
  for (size_t i = 10; i < kPercentiles; i += 10) {
    edges.push_back(percentiles[i]);
    if (percentiles[i] == percentiles[i - 10]) {
      edges.push_back(before(percentiles[i]));
    }
  }
  std::sort(edges.begin(), edges.end());
  for (const double edge : edges) {
    const int known = scaling.bucket_edges_size();
    // Ascending and distinct, since equal edges would make buckets that nothing can fall into.
    if (from <= edge && edge < to && (known == 0 || scaling.bucket_edges(known - 1) < edge)) {
      scaling.add_bucket_edges(edge);
    }
  }
}

}  // namespace splitveil
