#include "label_party/protection/sparsify_protection.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "label_party/protection/protection_report.h"

namespace splitveil {

std::string SparsifyProtection::name() const { return absl::StrCat("sparsify(keep=", keep_, ")"); }

absl::StatusOr<ProtectionReport> SparsifyProtection::PerturbWithin(ConstMatrixView gradients,
                                                                   absl::Span<const uint8_t> labels,
                                                                   const NoisePosition&, double max_sum_kl,
                                                                   Matrix& out) {
  absl::StatusOr<ProtectionReport> report = DescribeBatch("sparsify", gradients, labels);
  if (report.ok() && max_sum_kl < kAsConfigured) {
    report = NoNoiseKeeps(max_sum_kl, "sparsify");
  }
  if (!report.ok()) {
    out = Matrix();
    return report;
  }
  CopyRows(gradients, out);
  std::vector<float> magnitudes(out.data(), out.data() + out.size());
  std::transform(magnitudes.begin(), magnitudes.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
  const auto kept = static_cast<std::ptrdiff_t>(std::ceil(keep_ * static_cast<double>(magnitudes.size())));
  const auto least = magnitudes.begin() + (kept - 1);
  std::nth_element(magnitudes.begin(), least, magnitudes.end(), std::greater<>());
  // Before `least` stand the larger ones and some of its equals: that many of them are kept.
  auto equals = 1 + std::count(magnitudes.begin(), least, *least);
  std::for_each(out.data(), out.data() + out.size(), [&](float& component) {
    const float magnitude = std::abs(component);
    if (magnitude < *least || (magnitude == *least && equals-- <= 0)) {
      component = 0;
    }
  });
  return report;
}

}  // namespace splitveil
