#include "label_party/protection/max_norm_protection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "common/leakage/inner_product.h"
#include "common/status/status_macros.h"
#include "label_party/protection/protection_report.h"

namespace splitveil {
namespace {

// Whether the method's own noise reaches the batch: two classes, and norms that differ by more than rounding.
bool PerturbsItself(const ClassMoments& moments) {
  constexpr double kRounding = 1e-12;
  return moments.negatives > 0 && moments.positives > 0 &&
         moments.mean_squared_norm < (1 - kRounding) * moments.max_squared_norm;
}

}  // namespace

absl::StatusOr<ProtectionReport> MaxNormProtection::AddNoise(const Batch& batch) {
  const ClassMoments& moments = batch.moments;
  if (!PerturbsItself(moments)) {
    return AddIsotropicNoise(batch, "max_norm+fallback", running().FallbackScale(moments));
  }
  const double target = moments.max_squared_norm;
  const RowNoise zero_row_noise{0, 0, std::sqrt(target / static_cast<double>(batch.gradients.cols()))};
  const auto noise_of_row = [&](int64_t j) {
    const double squared_norm = SquaredNorm(batch.gradients.row(j));
    if (squared_norm == 0) {
      return zero_row_noise;
    }
    return RowNoise{std::sqrt(std::max(0.0, target / squared_norm - 1)), 0, 0};
  };
  SPLITVEIL_RETURN_IF_ERROR(AddRowNoise(batch, {}, noise_of_row));
  ProtectionReport report = EmptyReport("max_norm");
  report.u = moments.u;
  report.v = moments.v;
  report.g = moments.dg_squared;
  report.p = moments.p;
  report.power = target - moments.mean_squared_norm;
  return report;
}

}  // namespace splitveil
