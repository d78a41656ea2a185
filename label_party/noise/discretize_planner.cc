#include "label_party/noise/discretize_planner.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace splitveil {

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
