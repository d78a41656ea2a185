#include "label_party/session/release_guard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "label_party/audit/measured_leak.h"

namespace splitveil {

ReleaseGuard::ReleaseGuard(std::unique_ptr<GradientProtection> protection, ReleaseGate gate, int64_t examples,
                           double earlier_sum_kl)
    : protection_(std::move(protection)),
      gate_(std::move(gate)),
      accountant_(examples),
      earlier_sum_kl_(earlier_sum_kl) {}

absl::StatusOr<GuardedBatch> ReleaseGuard::Guard(ConstMatrixView clean, const ReleasedBatch& batch) {
  const NoisePosition position{batch.epoch, batch.batch, 0};
  GuardedBatch guarded;
  ReleaseFigures figures;
  figures.exposed_sum_kl = earlier_sum_kl_ + accountant_.MaxOf(batch.positions);
  double max_sum_kl = GradientProtection::kAsConfigured;
  std::string raised_for;
  for (;; ++figures.times_raised) {
    absl::StatusOr<ProtectionReport> report =
        protection_->PerturbWithin(clean, batch.labels, position, max_sum_kl, guarded.gradients);
    if (figures.times_raised > 0 && absl::IsFailedPrecondition(report.status())) {
      guarded.decision.action = GateAction::kFreezeBottom;
      guarded.decision.reason = absl::StrCat(raised_for, "; no noise keeps that");
      break;
    }
    if (!report.ok()) {
      return report.status();
    }
    guarded.report = *std::move(report);
    figures.sum_kl = guarded.report.sum_kl;
    figures.run_sum_kl = earlier_sum_kl_ + guarded.report.run_sum_kl;
    figures.measured_leak = gate_.WantsMeasuredLeak() ? MeasuredLeak(guarded.gradients, batch) : 0.5;
    guarded.decision = gate_.Decide(figures);
    if (guarded.decision.action != GateAction::kRaiseNoise) {
      break;
    }
    max_sum_kl = std::min(max_sum_kl, guarded.decision.max_sum_kl);
    raised_for = guarded.decision.reason;
  }
  if (figures.times_raised > 0 && guarded.decision.action < GateAction::kRaiseNoise) {
    guarded.decision.action = GateAction::kRaiseNoise;
    guarded.decision.reason = raised_for;
  }
  if (guarded.decision.action >= GateAction::kFreezeBottom) {
    guarded.gradients = Matrix();
  }
  return guarded;
}

double ReleaseGuard::Account(const ReleasedBatch& batch, const ProtectionReport& report) {
  return std::isnan(report.run_sum_kl) ? accountant_.Release(batch.positions, report.sum_kl)
                                       : accountant_.ReleaseOfRun(batch.positions, report.run_sum_kl);
}

}  // namespace splitveil
