// What the parties' privacy accounts say of all runs, in both directions.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/audit/criteria.h"

#include "common/figures/run_figures.h"
#include "common/privacy/gaussian_privacy.h"

namespace splitveil {
namespace {

constexpr char kRemedy[] =
    "Send activations under `gaussian` alone, and keep one privacy_account for the life of the table; more noise or "
    "fewer epochs lower what each run adds. Audit runs on different tables by ledgers of their own.";

constexpr double kRoundingOfSums = 1e-9;  // Of two ways to the same sum.

// Before the alignment nothing is sent that is computed of features.
bool MayHaveSent(const PartyRecords& party) {
  return std::any_of(party.events.begin(), party.events.end(),
                     [](const EventRow& event) { return event.kind == "aligned"; });
}

// Of all activations that these ledgers show.
struct ActivationLifetime {
  std::optional<double> auc_bound;  // nullopt: some are not counted.
  // If every run sent the same examples: larger than `auc_bound` where an account has counted less than its runs sent,
  // because they are on different rows, or because a copy from before some of them was put back.
  double possible = 0;
  std::vector<std::string> accounts, not_counted;  // Their ids, and the runs'.
};

ActivationLifetime LifetimeOf(const std::vector<LedgerRun>& runs) {
  std::map<std::string, double> bounds;  // The largest of each account, which counts all of its runs.
  double sent = 0;                       // Of those runs, mu^2.
  ActivationLifetime lifetime;
  for (const LedgerRun& run : runs) {
    const PartyRecords* const party = run.nonlabel_party();
    if (party == nullptr) {
      continue;
    }
    if (party->all_runs.has_value()) {
      double& bound = bounds[party->all_runs->account];
      bound = std::max(bound, party->all_runs->auc_bound);
      const double mu = party->activation_bound.has_value() ? party->activation_bound->mu : 0;
      sent += mu * mu;
    } else if (MayHaveSent(*party)) {
      lifetime.not_counted.push_back(run.run_id());
    }
  }
  // An account that was lost, or replaced, knows nothing of what another one has counted: their sums add up.
  std::vector<GaussianPrivacy> parts;
  bool bounded = lifetime.not_counted.empty() && !bounds.empty();
  for (const auto& [account, bound] : bounds) {
    lifetime.accounts.push_back(account.substr(0, 8));
    const absl::StatusOr<GaussianPrivacy> part = GaussianPrivacy::FromAucBound(bound);
    bounded = bounded && part.ok();
    parts.push_back(part.value_or(GaussianPrivacy()));
  }
  if (bounded) {
    // A single account says it to the last bit.
    lifetime.auc_bound = bounds.size() == 1 ? bounds.begin()->second : GaussianPrivacy::Compose(parts).AucBound();
    const absl::StatusOr<GaussianPrivacy> all_sent = GaussianPrivacy::FromMu(std::sqrt(sent));
    lifetime.possible = std::max(*lifetime.auc_bound, all_sent.ok() ? all_sent->AucBound() : 1);
  }
  return lifetime;
}

}  // namespace

std::vector<Finding> LifetimeFindings(const std::vector<LedgerRun>& runs, const LedgerRun& run,
                                      const v1::AuditPolicy& policy) {
  if (!policy.has_max_lifetime_activation_auc_bound()) {
    return {};
  }
  const double limit = policy.max_lifetime_activation_auc_bound();
  Finding finding = NotMeasured("bound on any attribute over all runs (proved)", absl::StrFormat("at most %g", limit),
                                kNotMeasured, kRemedy);
  finding.holder = LedgerHolder::kNonLabelParty;
  if (run.nonlabel_party() == nullptr) {
    return {finding};
  }
  const ActivationLifetime lifetime = LifetimeOf(runs);
  finding.outcome = lifetime.auc_bound.has_value() && *lifetime.auc_bound <= limit ? Outcome::kMet : Outcome::kNotMet;
  finding.found = lifetime.auc_bound.has_value()
                      ? absl::StrCat(AgainstLimit(*lifetime.auc_bound, limit), ": guaranteed given the bottom model")
                  : lifetime.not_counted.empty() ? "no bound: no run was counted"
                                                 : absl::StrCat("no bound: no account counts the activations of ",
                                                                absl::StrJoin(lifetime.not_counted, ", "));
  if (finding.outcome == Outcome::kMet && lifetime.possible > limit + kRoundingOfSums) {
    finding.outcome = Outcome::kOpen;
    finding.found = absl::StrFormat(
        "%.3f by the account, up to %.3f if these runs sent the same examples: then the account's file "
        "is an older copy",
        *lifetime.auc_bound, lifetime.possible);
  }
  if (!lifetime.accounts.empty()) {
    finding.where =
        absl::StrCat("all runs of these ledgers, by privacy account ", absl::StrJoin(lifetime.accounts, " and "));
  }
  return {finding};
}

std::string LifetimeLine(const std::vector<LedgerRun>& runs, const LedgerRun& run, double labels_auc_bound) {
  const PartyRecords* const nonlabel = run.nonlabel_party();
  if (nonlabel == nullptr || !nonlabel->all_runs.has_value()) {
    return "";
  }
  const ActivationLifetime lifetime = LifetimeOf(runs);
  const PartyRecords* const label = run.label_party();
  const std::string of_labels = label == nullptr      ? "not in these ledgers"
                                : run.only_predicts() ? "nothing released by this run"
                                : labels_auc_bound < 1 && IsBoundProved(run.protection())
                                    ? absl::StrFormat("%.3f, over all runs on these labels", labels_auc_bound)
                                    : "none proved";
  const std::string of_features =
      lifetime.auc_bound.has_value()
          ? absl::StrFormat("%.3f given the bottom model, by the non-label party's account%s", *lifetime.auc_bound,
                            lifetime.possible > *lifetime.auc_bound + kRoundingOfSums
                                ? absl::StrFormat(" (up to %.3f if all runs sent the same examples)", lifetime.possible)
                                : "")
          : "none proved, as other runs sent activations that no account counts";
  return absl::StrCat("life-long bounds on the AUC: of a label ", of_labels, "; of an example's features ",
                      of_features);
}

}  // namespace splitveil
