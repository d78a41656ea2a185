#include "label_party/protection/discretize_protection.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "label_party/protection/protection_report.h"

namespace splitveil {

std::string DiscretizeProtection::name() const { return absl::StrCat("discretize(bins=", bins_, ")"); }

absl::StatusOr<ProtectionReport> DiscretizeProtection::PerturbWithin(ConstMatrixView gradients,
                                                                     absl::Span<const uint8_t> labels,
                                                                     const NoisePosition&, double max_sum_kl,
                                                                     Matrix& out) {
  absl::StatusOr<ProtectionReport> report = DescribeBatch("discretize", gradients, labels);
  if (report.ok() && max_sum_kl < kAsConfigured) {
    report = NoNoiseKeeps(max_sum_kl, "discretize");
  }
  if (!report.ok()) {
    out = Matrix();
    return report;
  }
  CopyRows(gradients, out);
  const double n = static_cast<double>(gradients.size());
  double mean = 0;
  for (float component : gradients.values()) {
    mean += component / n;
  }
  double variance = 0;
  for (float component : gradients.values()) {
    variance += (component - mean) * (component - mean) / n;
  }
  const double lowest = mean - 2 * std::sqrt(variance);
  const double spacing = 4 * std::sqrt(variance) / (bins_ - 1);
  if (spacing == 0) {
    return report;
  }
  std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
    const double bin = std::clamp(std::round((component - lowest) / spacing), 0.0, bins_ - 1.0);
    component = static_cast<float>(lowest + bin * spacing);
  });
  return report;
}

}  // namespace splitveil
