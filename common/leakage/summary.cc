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
  if (aucs.size() > 1) {
    double squares = 0;
    for (double leak : leaks) {
      squares += (leak - summary.mean) * (leak - summary.mean);
    }
    constexpr double kNormalQuantile975 = 1.959963984540054;
    summary.mean_ci95 = kNormalQuantile975 * std::sqrt(squares / (steps - 1) / steps);
  }
  summary.p95 = NearestRankQuantile(std::move(leaks), 0.95);
  return summary;
}

double NearestRankQuantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  // The tolerance keeps q = 0.95 of 20 values, 19.000000000000004 in binary, at rank 19.
  const double size = static_cast<double>(values.size());
  const double rank = std::clamp(std::ceil(q * size - size * 1e-12), 1.0, size);
  const auto nth = values.begin() + (static_cast<int64_t>(rank) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

}  // namespace splitveil
