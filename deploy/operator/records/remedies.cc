#include "deploy/operator/records/remedies.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

bool IsOf(absl::string_view protection, absl::string_view method) {
  return protection == method || absl::StartsWith(protection, absl::StrCat(method, "("));
}

constexpr char kMoreLabelNoise[] =
    "Raise the noise on the labels (sigma, or a lower max_run_auc_bound); it does not hide whatever the features "
    "themselves reveal.";
constexpr char kUseProvedBound[] = "Set gaussian_label_dp { max_run_auc_bound: 0.7 }, whose bound is proved.";

}  // namespace

std::string RemedyForLeak(absl::string_view protection) {
  if (IsOf(protection, "marvell")) {
    return absl::StrContains(protection, "orthogonal_noise_ratio")
               ? "Raise marvell's s or its orthogonal_noise_ratio, or train fewer epochs."
               : "Raise marvell's s; against attacks that look across the class difference, set "
                 "orthogonal_noise_ratio: 4.";
  }
  if (IsOf(protection, "iso")) {
    return "Raise iso's t (the noise), or use marvell, which hides as much for less noise.";
  }
  if (IsOf(protection, "gaussian_label_dp")) {
    return kMoreLabelNoise;
  }
  // Unknown: advice that fits no protection would be worse than general advice.
  if (protection.empty()) {
    return "More noise or fewer epochs; the label party's ledger says which protection served.";
  }
  return "Set a protection whose bound is proved, gaussian_label_dp { max_run_auc_bound: 0.7 }, or one that adds noise "
         "to gradients, for example marvell { s: 4 orthogonal_noise_ratio: 4 }.";
}

std::string RemedyForCumulativeLeak(absl::string_view protection) {
  if (IsOf(protection, "marvell")) {
    return absl::StrContains(protection, "max_run_auc_bound")
               ? "Train fewer epochs, or lower the run_budget's max_run_auc_bound."
               : "Train fewer epochs, raise marvell's s, or let run_budget { max_run_auc_bound: 0.7 } share the noise "
                 "out over the run.";
  }
  if (IsOf(protection, "iso")) {
    return "Train fewer epochs, or raise iso's t (the noise); marvell's run_budget shares the noise out over the run.";
  }
  if (IsOf(protection, "max_norm")) {
    return absl::StrCat("Train fewer epochs: max_norm has no noise to raise. ", kUseProvedBound);
  }
  if (IsOf(protection, "label_dp")) {
    return "Lower label_dp's epsilon. Training fewer epochs does not help: every epoch uses the same flipped labels.";
  }
  if (IsOf(protection, "gaussian_label_dp")) {
    return absl::StrCat(kMoreLabelNoise, " Training fewer epochs does not help: ",
                        absl::StrContains(protection, "draws=") ? "the bound already covers all draws together."
                                                                : "every epoch uses the same noised labels.");
  }
  return RemedyForLeak(protection);
}

std::string RemedyForExceededBound(absl::string_view protection) {
  // No noise helps against a program that does not do what was proved.
  if (IsBoundProved(protection)) {
    return "The programs do not do what the proof assumes: stop using this run's model and gradients, and report it.";
  }
  if (IsOf(protection, "marvell")) {
    return absl::StrContains(protection, "orthogonal_noise_ratio")
               ? absl::StrCat(kUseProvedBound,
                              " A higher orthogonal_noise_ratio helps against attacks on classes; more s alone does "
                              "not.")
               : absl::StrCat(kUseProvedBound,
                              " Marvell's orthogonal_noise_ratio: 4 helps against attacks on classes; more s alone "
                              "does not.");
  }
  return kUseProvedBound;
}

std::string RemedyForConditionalBound() { return kUseProvedBound; }

}  // namespace splitveil
