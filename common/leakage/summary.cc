#include "common/leakage/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace splitveil {

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

}  // namespace splitveil
