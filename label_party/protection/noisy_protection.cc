#include "label_party/protection/noisy_protection.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"

#include "label_party/protection/protection_report.h"

namespace splitveil {

NoisyProtection::NoisyProtection(std::unique_ptr<SecureGaussian> gaussian) : gaussian_(std::move(gaussian)) {}

absl::StatusOr<ProtectionReport> NoisyProtection::Perturb(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                          const NoisePosition& position, Matrix& out) {
  absl::StatusOr<ClassMoments> moments = ComputeClassMoments(gradients, labels);
  if (!moments.ok()) {
    out = Matrix();
    return moments.status();
  }
  absl::StatusOr<ProtectionReport> report = AddNoise({gradients, labels, position, *moments, out});
  if (report.ok()) {
    running_.Update(*moments);
  } else {
    out = Matrix();
  }
  return report;
}

absl::StatusOr<ProtectionReport> NoisyProtection::AddIsotropicNoise(const Batch& batch, const std::string& method,
                                                                    double total_power) {
  const double variance = total_power / static_cast<double>(batch.gradients.cols());
  const RowNoise row_noise{0, 0, std::sqrt(variance)};
  if (absl::Status status = AddRowNoise(batch, {}, [&](int64_t) { return row_noise; }); !status.ok()) {
    return status;
  }
  const MarvellSolution noise{variance, variance, variance, variance, 0};
  if (batch.moments.informative()) {
    return ReportOf(method, batch.moments, noise);
  }
  if (running_.available()) {
    return ReportOf(method, running_.Estimate(), noise);
  }
  ProtectionReport report = EmptyReport(method);
  report.power = total_power;
  report.lambda1_neg = report.lambda2_neg = report.lambda1_pos = report.lambda2_pos = variance;
  return report;
}

absl::Status NoisyProtection::AddRowNoise(const Batch& batch, absl::Span<const float> direction,
                                          absl::FunctionRef<RowNoise(int64_t)> noise_of_row) {
  return WritePerturbedRows(batch.gradients, direction, noise_of_row, batch.position, *gaussian_, batch.out);
}

}  // namespace splitveil
