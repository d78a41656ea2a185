#include "label_party/protection/noisy_protection.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"

#include "common/status/status_macros.h"
#include "label_party/protection/isotropic_noise.h"
#include "label_party/protection/protection_report.h"

namespace splitveil {

NoisyProtection::NoisyProtection(std::unique_ptr<SecureGaussian> gaussian) : gaussian_(std::move(gaussian)) {}

absl::Status NoisyProtection::PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels) {
  absl::StatusOr<ClassMoments> moments = ComputeClassMoments(gradients, labels);
  if (moments.ok()) {
    running_.PrimeMoments(*moments);
  }
  return moments.status();
}

std::optional<ClassMoments> NoisyProtection::Moments() const {
  RunningMoments up_to_latest = running_;
  up_to_latest.Update(latest_);
  return up_to_latest.average();
}

absl::StatusOr<ProtectionReport> NoisyProtection::PerturbWithin(ConstMatrixView gradients,
                                                                absl::Span<const uint8_t> labels,
                                                                const NoisePosition& position, double max_sum_kl,
                                                                Matrix& out) {
  absl::StatusOr<ClassMoments> moments = ComputeClassMoments(gradients, labels);
  if (!moments.ok()) {
    out = Matrix();
    return moments.status();
  }
  if (position.epoch != latest_position_.epoch || position.batch != latest_position_.batch) {
    running_.Update(latest_);
    latest_ = ClassMoments();
    latest_position_ = position;
  }
  constexpr double kRounding = 1e-12;  // The solvers' divergence and the report's are computed in different ways.
  absl::StatusOr<ProtectionReport> report =
      AddNoise({gradients, labels, position, *moments, (1 - kRounding) * max_sum_kl, out});
  if (max_sum_kl < kAsConfigured && !(report.ok() && report->sum_kl <= max_sum_kl)) {
    report = NoNoiseKeeps(max_sum_kl, name());
  }
  if (report.ok()) {
    latest_ = *std::move(moments);
  } else {
    out = Matrix();
  }
  return report;
}

absl::StatusOr<ProtectionReport> NoisyProtection::AddIsotropicNoise(const Batch& batch, const std::string& method,
                                                                    double total_power) {
  const double d = static_cast<double>(batch.gradients.cols());
  std::optional<ClassMoments> classes;  // Between which the divergence is.
  if (batch.moments.informative()) {
    classes = batch.moments;
  } else if (running_.available()) {
    classes = running_.Estimate();
  }
  double variance = total_power / d;
  if (classes && batch.max_sum_kl < kAsConfigured) {
    variance = std::max(variance, LeastIsotropicVariance(*classes, batch.max_sum_kl));
  }
  const RowNoise row_noise{0, 0, std::sqrt(variance)};
  SPLITVEIL_RETURN_IF_ERROR(AddRowNoise(batch, {}, [&](int64_t) { return row_noise; }));
  if (classes) {
    return ReportOf(method, *classes, {variance, variance, variance, variance, 0});
  }
  ProtectionReport report = EmptyReport(method);
  report.power = variance * d;
  report.lambda1_neg = report.lambda2_neg = report.lambda1_pos = report.lambda2_pos = variance;
  return report;
}

absl::Status NoisyProtection::AddRowNoise(const Batch& batch, absl::Span<const float> direction,
                                          absl::FunctionRef<RowNoise(int64_t)> noise_of_row) {
  return WritePerturbedRows(batch.gradients, direction, noise_of_row, batch.position, *gaussian_, batch.out);
}

}  // namespace splitveil
