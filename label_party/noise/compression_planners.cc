#include "label_party/noise/compression_planners.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"

namespace splitveil {

std::string SparsifyPlanner::name() const { return absl::StrCat("sparsify(keep=", keep_, ")"); }

absl::StatusOr<NoisePlan> SparsifyPlanner::Plan(const BatchFacts& batch, double) const {
  const absl::Span<const float> components = batch.gradients.values();
  std::vector<float> magnitudes(components.begin(), components.end());
  std::transform(magnitudes.begin(), magnitudes.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
  const auto kept = static_cast<std::ptrdiff_t>(std::ceil(keep_ * static_cast<double>(magnitudes.size())));
  const auto least = magnitudes.begin() + (kept - 1);
  std::nth_element(magnitudes.begin(), least, magnitudes.end(), std::greater<>());
  // Before `least` stand the larger ones and some of its equals: that many of them are kept.
  const int64_t equals = 1 + std::count(magnitudes.begin(), least, *least);
  return NoisePlan{DescribeBatch("sparsify", batch.moments), KeepLargest{*least, equals}};
}

std::string DiscretizePlanner::name() const { return absl::StrCat("discretize(bins=", bins_, ")"); }

absl::StatusOr<NoisePlan> DiscretizePlanner::Plan(const BatchFacts& batch, double) const {
  const double n = static_cast<double>(batch.gradients.size());
  double mean = 0;
  for (float component : batch.gradients.values()) {
    mean += component / n;
  }
  double variance = 0;
  for (float component : batch.gradients.values()) {
    variance += (component - mean) * (component - mean) / n;
  }
  NoisePlan plan{DescribeBatch("discretize", batch.moments), NoChange{}};
  const double spacing = 4 * std::sqrt(variance) / (bins_ - 1);
  if (spacing > 0) {
    plan.change = RoundToBins{mean - 2 * std::sqrt(variance), spacing, bins_};
  }
  return plan;
}

}  // namespace splitveil
