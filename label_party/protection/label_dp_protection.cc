#include "label_party/protection/label_dp_protection.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/aes_ctr.h"
#include "label_party/protection/protection_report.h"
#include "label_party/protection/run_budget.h"

namespace splitveil {

LabelDpProtection::LabelDpProtection(double epsilon, SecretKey key)
    : epsilon_(epsilon), rho_(1 / (1 + std::exp(epsilon))), key_(std::move(key)) {}

std::string LabelDpProtection::name() const { return absl::StrCat("label_dp(epsilon=", epsilon_, ")"); }

std::vector<float> LabelDpProtection::TrainingTargets(absl::Span<const uint8_t> labels) {
  drawn_ = true;
  std::vector<uint64_t> words(labels.size());
  AesCtr(key_.bytes()).Generate({reinterpret_cast<uint8_t*>(words.data()), sizeof(uint64_t) * words.size()});
  const double limit = std::ldexp(rho_, 64);  // Below 2^63.
  std::vector<float> targets(labels.size());
  for (size_t j = 0; j < labels.size(); ++j) {
    const bool flip = words[j] < static_cast<uint64_t>(limit);
    targets[j] = static_cast<float>(((flip ? 1 - labels[j] : labels[j]) - rho_) / (1 - 2 * rho_));
  }
  return targets;
}

absl::StatusOr<ProtectionReport> LabelDpProtection::PerturbWithin(ConstMatrixView gradients,
                                                                  absl::Span<const uint8_t> labels,
                                                                  const NoisePosition&, double max_sum_kl,
                                                                  Matrix& out) {
  absl::StatusOr<ProtectionReport> report = DescribeBatch("label_dp", gradients, labels);
  if (!drawn_) {
    report = absl::FailedPreconditionError("label_dp: expected training on its targets, found none drawn");
  }
  if (report.ok()) {
    report->sum_kl = std::max(2 * (1 - 2 * rho_) * epsilon_, SumKlForRunAuc(1 - rho_));
    report->run_sum_kl = report->sum_kl;
  }
  if (report.ok() && !(report->sum_kl <= max_sum_kl)) {
    report = NoNoiseKeeps(max_sum_kl, "label_dp");
  }
  if (!report.ok()) {
    out = Matrix();
    return report;
  }
  CopyRows(gradients, out);
  return report;
}

}  // namespace splitveil
