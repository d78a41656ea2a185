#include "label_party/noise/protection_report.h"

#include <cstdint>

#include "common/leakage/gaussian_divergence.h"

namespace splitveil {

ProtectionReport EmptyReport(const std::string& method) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {method, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
}

ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const ClassNoise& noise) {
  const int64_t d = static_cast<int64_t>(moments.mean_difference.size());
  const double others = static_cast<double>(d - 1);
  ProtectionReport report = EmptyReport(method);
  report.u = moments.u;
  report.v = moments.v;
  report.g = moments.dg_squared;
  report.p = moments.p;
  report.power = moments.p * (noise.lambda1_pos + others * noise.lambda2_pos) +
                 (1 - moments.p) * (noise.lambda1_neg + others * noise.lambda2_neg);
  report.lambda1_neg = noise.lambda1_neg;
  report.lambda2_neg = noise.lambda2_neg;
  report.lambda1_pos = noise.lambda1_pos;
  report.lambda2_pos = noise.lambda2_pos;
  report.sum_kl = SumKl({d, moments.dg_squared, noise.lambda1_neg + moments.u, noise.lambda2_neg + moments.u,
                         noise.lambda1_pos + moments.v, noise.lambda2_pos + moments.v});
  return report;
}

ProtectionReport DescribeBatch(const std::string& method, const ClassMoments& moments) {
  ProtectionReport report = EmptyReport(method);
  if (moments.informative()) {
    report.u = moments.u;
    report.v = moments.v;
    report.g = moments.dg_squared;
    report.p = moments.p;
  }
  return report;
}

}  // namespace splitveil
