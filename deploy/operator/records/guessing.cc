#include "deploy/operator/records/guessing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

constexpr double kNormal975 = 1.959963984540054;  // Two-sided 95% of the standard normal distribution.

double MedianBatch(const RunRecords& run) {
  std::vector<double> sizes;
  for (const StepRow& row : run.steps()) {
    sizes.push_back(static_cast<double>(row.examples));
  }
  return sizes.empty() ? 0 : NearestRankQuantile(std::move(sizes), 0.5);
}

// By the protection's own counts, else by the epochs that attacks were scored over; NaN where neither is there.
double ShareOfPositives(const RunRecords& run) {
  double sum = 0;
  int64_t count = 0;
  for (const ProtectionRow& row : run.protections()) {
    if (std::isfinite(row.p)) {
      sum += row.p;
      ++count;
    }
  }
  if (count > 0) {
    return sum / static_cast<double>(count);
  }
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (row.examples > 0) {
      return static_cast<double>(row.positives) / static_cast<double>(row.examples);
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double GuessingAucP95(double positives, double negatives) {
  if (!(positives > 0) || !(negatives > 0)) {
    return 1;
  }
  const double deviation = std::sqrt((positives + negatives + 1) / (12 * positives * negatives));
  return std::min(1.0, 0.5 + kNormal975 * deviation);
}

double GuessingAucP95(const RunRecords& run) {
  const double batch = MedianBatch(run), share = ShareOfPositives(run);
  if (!(batch > 0) || !std::isfinite(share)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return GuessingAucP95(batch * share, batch * (1 - share));
}

}  // namespace splitveil
