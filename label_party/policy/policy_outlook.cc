#include "label_party/policy/policy_outlook.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/run_budget.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The divergence of one release in each epoch; NaN where the method bounds none; nothing where it follows from
// gradients.
absl::StatusOr<std::vector<double>> PlannedSumKl(const v1::GradientProtection& protection, int32_t epochs,
                                                 const std::vector<double>& label_dp_sum_kl) {
  using Marvell = v1::GradientProtection::Marvell;
  if (protection.has_gaussian_label_dp()) {
    return label_dp_sum_kl;
  }
  const auto all = static_cast<size_t>(epochs);
  if (!protection.has_marvell()) {
    return protection.has_iso() ? std::vector<double>() : std::vector<double>(all, kUnknown);
  }
  switch (protection.marvell().strength_case()) {
    case Marvell::kSumKl:
      return std::vector<double>(all, protection.marvell().sum_kl());
    case Marvell::kDetectionError:
      return std::vector<double>(all, std::pow(2 - 4 * protection.marvell().detection_error(), 2));
    case Marvell::kRunBudget:
      return PlanRunBudget(protection.marvell().run_budget());
    default:
      return std::vector<double>();
  }
}

std::string Words(v1::GateAction action) { return absl::AsciiStrToLower(v1::GateAction_Name(action)); }

std::string RunBoundText(double run_sum_kl) {
  return std::isnan(run_sum_kl)
             ? "no bound on what the releases allow"
             : absl::StrFormat("all releases of an example allow an AUC of at most %.3f", GaussianAucBound(run_sum_kl));
}

}  // namespace

absl::StatusOr<PolicyOutlook> ForeseePolicy(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection,
                                            int32_t epochs, const std::vector<double>& label_dp_sum_kl) {
  SPLITVEIL_ASSIGN_OR_RETURN(const ReleaseGate gate, ReleaseGate::Create(policy, protection));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<double> planned, PlannedSumKl(protection, epochs, label_dp_sum_kl));
  PolicyOutlook outlook;
  if (planned.empty()) {
    outlook.known = false;
    outlook.text = "the noise is set relative to the gradients: what a release allows is known in the run only";
    return outlook;
  }
  const double whole = std::accumulate(planned.begin(), planned.end(), 0.0);
  double so_far = 0;
  for (int32_t epoch = 0; epoch < epochs; ++epoch) {
    ReleaseFigures figures;
    // Behind the plan of a run budget nothing is left for a release.
    figures.sum_kl = static_cast<size_t>(epoch) < planned.size() ? planned[epoch]
                     : protection.has_gaussian_label_dp()        ? 0
                                                                 : std::numeric_limits<double>::infinity();
    figures.exposed_sum_kl = so_far;
    figures.epoch = static_cast<uint32_t>(epoch);
    if (protection.has_gaussian_label_dp()) {
      figures.run_sum_kl = whole;  // All of them count from the first batch on.
    }
    const GateDecision decision = gate.Decide(figures);
    if (decision.action != v1::RELEASE && outlook.first_epoch == 0) {
      outlook.first_epoch = epoch + 1;
      outlook.text =
          absl::StrCat(Words(decision.action), " in epoch ", epoch + 1, " of ", epochs, ": ", decision.reason);
    }
    outlook.action = std::max(outlook.action, decision.action);
    if (decision.action >= v1::FREEZE_BOTTOM) {
      return outlook;
    }
    so_far += figures.sum_kl;
  }
  if (outlook.first_epoch == 0) {
    outlook.text = absl::StrCat(RunBoundText(whole), "; the policy acts on none of the ", epochs, " epochs");
  }
  return outlook;
}

}  // namespace splitveil
