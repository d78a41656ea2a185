#include "deploy/operator/records/remedies.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace splitveil {

std::string RemedyForLeak(absl::string_view protection) {
  if (absl::StartsWith(protection, "marvell")) {
    return absl::StrContains(protection, "orthogonal_noise_ratio")
               ? "Raise marvell's s or its orthogonal_noise_ratio, or train fewer epochs."
               : "Raise marvell's s; against attacks that look across the class difference, set "
                 "orthogonal_noise_ratio: "
                 "4.";
  }
  if (absl::StartsWith(protection, "iso")) {
    return "Raise iso's t (the noise), or use marvell, which hides as much for less noise.";
  }
  if (absl::StartsWith(protection, "gaussian_label_dp")) {
    return "Raise the noise on the labels (sigma, or a lower max_run_auc_bound); what features tell of a label, no "
           "noise "
           "hides.";
  }
  if (protection.empty()) {
    return "More noise or fewer epochs; the label party's ledger says which protection served.";
  }
  return "Set a protection whose bound is proved, gaussian_label_dp { max_run_auc_bound: 0.7 }, or one that adds noise "
         "to "
         "gradients, for example marvell { s: 4 orthogonal_noise_ratio: 4 }.";
}

std::string RemedyForCumulativeLeak() {
  return "Train fewer epochs, add more noise, or let run_budget { max_run_auc_bound: 0.7 } share the noise out over "
         "the "
         "run.";
}

std::string RemedyForExceededBound(absl::string_view protection) {
  if (absl::StartsWith(protection, "marvell")) {
    return absl::StrContains(protection, "orthogonal_noise_ratio")
               ? "Raise marvell's orthogonal_noise_ratio, or set gaussian_label_dp, whose bound is proved."
               : "Set gaussian_label_dp, whose bound is proved. Marvell's orthogonal_noise_ratio: 4 helps against "
                 "attacks "
                 "on classes; more s alone does not.";
  }
  return RemedyForConditionalBound();
}

std::string RemedyForConditionalBound() {
  return "Use noise on the labels, whose bound is proved: gaussian_label_dp { max_run_auc_bound: 0.7 }.";
}

}  // namespace splitveil
