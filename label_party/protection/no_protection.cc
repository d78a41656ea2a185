#include "label_party/protection/no_protection.h"

#include "label_party/protection/class_moments.h"
#include "label_party/protection/protection_report.h"

namespace splitveil {

absl::StatusOr<ProtectionReport> NoProtection::PerturbWithin(ConstMatrixView gradients,
                                                             absl::Span<const uint8_t> labels, const NoisePosition&,
                                                             double max_sum_kl, Matrix& out) {
  absl::StatusOr<ClassMoments> moments = ComputeClassMoments(gradients, labels);
  if (moments.ok() && max_sum_kl < kAsConfigured) {
    moments = NoNoiseKeeps(max_sum_kl, "none");
  }
  if (!moments.ok()) {
    out = Matrix();
    return moments.status();
  }
  CopyRows(gradients, out);
  return moments->informative() ? ReportOf("none", *moments, MarvellSolution{}) : EmptyReport("none");
}

}  // namespace splitveil
