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

// Never a method whose bound is conditional: an adversary that is not as it assumes reads more.
std::string RemedyForLeak(absl::string_view protection) {
  if (IsOf(protection, "gaussian_label_dp")) {
    return kMoreLabelNoise;
  }
  // Unknown: advice that fits no protection would be worse than general advice.
  return protection.empty() ? "More noise or fewer epochs; the label party's ledger says which protection served."
                            : kUseProvedBound;
}

std::string RemedyForCumulativeLeak(absl::string_view protection) {
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
  return IsBoundProved(protection) ? "The programs do not do what the proof assumes: stop using this run's model and "
                                     "gradients, and report it."
                                   : kUseProvedBound;
}

std::string RemedyForConditionalBound() { return kUseProvedBound; }

}  // namespace splitveil
