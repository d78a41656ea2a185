#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/sweep/sweep_plan.h"

#include "common/crypto/label_noise.h"
#include "common/dataset/prepared_data.h"
#include "common/figures/figure_words.h"
#include "common/privacy_account/privacy_account.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/label_privacy/noised_labels.h"

namespace splitveil {
namespace {

// What the runs release of an example together: of each strength as many draws as the run with the most.
absl::StatusOr<std::vector<NoiseReleases>> ReleasesOf(const std::vector<const SweepRun*>& runs, const Task& task) {
  std::map<uint32_t, uint32_t> most;
  for (const SweepRun* run : runs) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> planned,
                               PlannedReleases(run->label_config.protection(), task));
    for (const NoiseReleases& of : planned) {
      most[of.sigma_units] = std::max(most[of.sigma_units], of.draws);
    }
  }
  std::vector<NoiseReleases> releases;
  for (const auto& [units, draws] : most) {
    releases.push_back({units, draws});
  }
  return releases;
}

absl::StatusOr<ForeseenDebit> Foresee(const SweepRun& run, const Dataset& label_data,
                                      const std::vector<NoiseReleases>& releases) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<uint32_t> rows, SharedRows(run, label_data, SplitPart::kTraining));
  std::vector<NoiseRow> examples;
  for (const uint32_t row : rows) {
    examples.push_back(NoiseRow::OfId(label_data.ids()[row]));
  }
  const v1::PrivacyAccount& config = run.label_config.privacy_account();
  const LabelKind kind = LabelKindOf(label_data.task());
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::unique_ptr<PrivacyAccount> account,
      PrivacyAccount::OpenToRead({config.path(), config.label_set(), config.max_lifetime_auc_bound(), kind}));
  return account != nullptr ? account->Foresee(examples, releases)
                            : PrivacyAccount::ForeseeNew(kind, static_cast<int64_t>(examples.size()), releases);
}

std::string Words(const v1::PrivacyAccount& account, const std::vector<NoiseReleases>& releases,
                  const ForeseenDebit& foreseen) {
  const std::string sigmas = absl::StrJoin(releases, ", ", [](std::string* out, const NoiseReleases& of) {
    absl::StrAppendFormat(out, "%.4g", std::ldexp(static_cast<double>(of.sigma_units), -kLabelGridBits));
    absl::StrAppend(out, of.draws > 1 ? absl::StrCat(" in ", of.draws, " draws") : "");
  });
  const std::string what = absl::StrCat("privacy account ", account.path(), ", label set \"", account.label_set(),
                                        "\": the runs release noised labels of sigma ", sigmas, ", ");
  if (foreseen.releases == 0) {
    return absl::StrCat(what, "all of which it has: nothing more is counted");
  }
  return absl::StrCat(
      what,
      absl::StrFormat("and count %d releases of %d examples that it does not have; AUC bound of all runs together: "
                      "%s now, %s then, limit %g",
                      foreseen.releases, foreseen.examples, BoundText(foreseen.so_far.AucBound()),
                      BoundText(foreseen.lifetime.AucBound()), account.max_lifetime_auc_bound()),
      foreseen.lifetime.AucBound() > account.max_lifetime_auc_bound() ? " (a run that would pass it is halted)" : "");
}

}  // namespace

absl::StatusOr<SweepDebit> ForeseeSweepDebit(const std::vector<const SweepRun*>& runs) {
  std::vector<const SweepRun*> counted;
  for (const SweepRun* run : runs) {
    if (HasKeptAccount(*run)) {
      counted.push_back(run);
    }
  }
  if (counted.empty()) {
    return SweepDebit();
  }
  const SweepRun& first = *counted.front();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> label_data,
                             OpenPreparedData(first.label_config.party(), first.agreement, PreparedFor::kLabelParty));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> releases, ReleasesOf(counted, label_data->task()));
  SPLITVEIL_ASSIGN_OR_RETURN(const ForeseenDebit foreseen, Foresee(first, *label_data, releases));
  return SweepDebit{Words(first.label_config.privacy_account(), releases, foreseen), foreseen.releases > 0};
}

}  // namespace splitveil
