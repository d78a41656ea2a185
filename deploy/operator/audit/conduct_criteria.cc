#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"

#include "common/figures/all_runs.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/ledger/ledger_rows.h"
#include "common/privacy/gaussian_privacy.h"

// What the parties' privacy accounts say of all runs, in both directions.
namespace splitveil {
namespace {

bool Contains(const std::vector<std::string>& names, absl::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Finding Ended(const LedgerRun& run) {
  Finding finding = {
      Outcome::kMet,
      "ended as agreed",
      "completed",
      "completed",
      "",
      "See the run's events and its log for why it ended; resume it from its checkpoint or run it again."};
  for (const PartyRecords& party : run.parties) {
    // Each party records its own end: a run that one of them saw fail did not end as agreed.
    if (party.record.status != "completed") {
      finding.outcome = Outcome::kNotMet;
      finding.found = party.record.status;
      finding.where = absl::StrCat(party.record.run.role == "label_party" ? "label" : "non-label", " party's ledger");
    }
  }
  return finding;
}

// How much a level tells, by its name in events: LABEL_SIDE_ONLY the least. A level that nobody knows tells the most.
int Telling(absl::string_view name) {
  for (const v1::DisclosureLevel level : {v1::LABEL_SIDE_ONLY, v1::ROUNDED, v1::ORACLE}) {
    if (absl::AsciiStrToLower(v1::DisclosureLevel_Name(level)) == name) {
      return level;
    }
  }
  return std::numeric_limits<int>::max();
}

// The ledger's event "attack module reads: ROUNDED".
Finding Disclosures(const LedgerRun& run, const v1::AuditPolicy& policy) {
  std::vector<std::string> found;
  for (const PartyRecords& party : run.parties) {
    for (const EventRow& event : party.events) {
      const std::string name = absl::AsciiStrToLower(
          std::vector<std::string>(absl::StrSplit(event.detail, absl::MaxSplits(": ", 1))).back());
      if (event.kind == "disclosure" && !Contains(found, name)) {
        found.push_back(name);
      }
    }
  }
  int most = v1::LABEL_SIDE_ONLY;
  for (const int level : policy.allowed_disclosures()) {
    // Levels are ordered: a policy that allows ROUNDED allows LABEL_SIDE_ONLY.
    most = std::max(most, level);
  }
  const bool met =
      std::all_of(found.begin(), found.end(), [&](const std::string& name) { return Telling(name) <= most; });
  const std::string limit = absl::AsciiStrToLower(v1::DisclosureLevel_Name(static_cast<v1::DisclosureLevel>(most)));
  return {found.empty() ? Outcome::kNotMeasured : (met ? Outcome::kMet : Outcome::kNotMet),
          "disclosure to the attack module",
          most == v1::LABEL_SIDE_ONLY ? limit : absl::StrCat("at most ", limit),
          found.empty() ? "not measured: no disclosure recorded" : absl::StrJoin(found, ", "),
          "",
          "Agree on a lower audit.disclosure before the next run: what was disclosed cannot be taken back."};
}

// Of a run that ended before its first answer, as one that the account or the ledger refused.
Finding NothingLeft(Finding finding) {
  finding.outcome = Outcome::kMet;
  finding.found = kNothingLeft;
  return finding;
}

// The run's protection and that of every released gradient.
Finding Protections(const LedgerRun& run, const v1::AuditPolicy& policy) {
  const std::vector<std::string> allowed(policy.allowed_protections().begin(), policy.allowed_protections().end());
  const auto is_allowed = [&](absl::string_view name) {
    return allowed.empty() ? name != "none" && !name.empty() : Contains(allowed, name);
  };
  Finding finding =
      NotMeasured("gradient protection", allowed.empty() ? "any but none" : absl::StrJoin(allowed, ", "), kNotMeasured,
                  "Set `protection` in the label party's configuration to one that the policy allows.");
  const PartyRecords* party = run.label_party();
  if (party == nullptr || !party->knows_decisions()) {
    return party != nullptr && party->released_nothing() ? NothingLeft(finding) : finding;
  }
  const std::string& named = party->record.run.protection;
  finding.found = named;
  // By the method alone, without its parameters and what is combined with it.
  finding.outcome = is_allowed(named.substr(0, named.find_first_of("(+"))) ? Outcome::kMet : Outcome::kNotMet;
  // Step by step as well: the name of the run does not show that every gradient had its protection.
  const auto judge = [&](const std::string& method, int64_t step) {
    if (finding.outcome == Outcome::kMet && !is_allowed(method.substr(0, method.find('+')))) {
      finding.outcome = Outcome::kNotMet;
      finding.found = method;
      finding.where = absl::StrCat("step ", step);
    }
  };
  for (const StepSummaryRow& row : party->removed_steps) {
    if (IsReleased(row)) {
      judge(row.method, row.first_step);
    }
  }
  for (const ProtectionRow& row : party->protections) {
    if (IsReleased(row)) {
      judge(row.method, row.step);
    }
  }
  return finding;
}

Finding GateDecisions(const LedgerRun& run, const v1::AuditPolicy& policy) {
  std::vector<std::string> allowed;
  for (int decision : policy.allowed_gate_decisions()) {
    allowed.push_back(GateActionName(static_cast<v1::GateAction>(decision)));
  }
  Finding finding =
      NotMeasured("decisions of the release gate", absl::StrJoin(allowed, ", "), kNotMeasured,
                  "Let the label party's release policy act (RAISE_NOISE or FREEZE_BOTTOM), or add noise so that its "
                  "limits are kept.");
  const PartyRecords* party = run.label_party();
  if (party == nullptr || !party->knows_decisions()) {
    return party != nullptr && party->released_nothing() ? NothingLeft(finding) : finding;
  }
  std::map<std::string, int64_t> counts;
  finding.outcome = Outcome::kMet;
  // All decisions are counted, and the first that is not allowed is where to look.
  const auto count = [&](v1::GateAction action, int64_t steps, int64_t first_step) {
    const std::string gate = GateActionName(action);
    counts[gate] += steps;
    if (finding.outcome == Outcome::kMet && !Contains(allowed, gate)) {
      finding.outcome = Outcome::kNotMet;
      finding.where = absl::StrCat(gate, " first at step ", first_step);
    }
  };
  for (const StepSummaryRow& row : party->removed_steps) {
    if (!row.method.empty()) {
      count(row.gate, row.steps, row.first_step);
    }
  }
  for (const ProtectionRow& row : party->protections) {
    count(row.gate, 1, row.step);
  }
  finding.found = absl::StrJoin(counts, ", ", absl::PairFormatter(" "));
  return finding;
}

Finding FinalTestAuc(const LedgerRun& run, double least) {
  Finding finding = {Outcome::kNotMeasured,
                     "AUC of the final model on test examples",
                     absl::StrFormat("at least %g", least),
                     "not measured: no evaluation of the test examples",
                     "",
                     "Less noise or more epochs; `splitveil sweep` shows what each protection costs."};
  const PartyRecords* party = run.label_party();
  if (party == nullptr) {
    return finding;
  }
  const EvaluationRow* const kept = KeptTest(party->evaluations);
  if (kept != nullptr && std::isfinite(kept->rmse)) {
    finding.found = "not measured: numbers are predicted, which have no AUC";
  } else if (kept != nullptr) {
    // The test figure of the kept epoch, which is the model that was kept.
    finding.outcome = kept->auc >= least ? Outcome::kMet : Outcome::kNotMet;
    finding.found = absl::StrFormat("%.3f", kept->auc);
    finding.where = absl::StrCat("after ", kept->step, " steps");
  }
  return finding;
}

}  // namespace

std::vector<Finding> ConductFindings(const LedgerRun& run, const v1::AuditPolicy& policy) {
  std::vector<Finding> findings;
  if (policy.require_completed()) {
    findings.push_back(Ended(run));
  }
  findings.push_back(Disclosures(run, policy));
  findings.push_back(Protections(run, policy));
  findings.push_back(GateDecisions(run, policy));
  if (policy.has_min_final_test_auc()) {
    findings.push_back(FinalTestAuc(run, policy.min_final_test_auc()));
  }
  return findings;
}

namespace {

constexpr char kRemedy[] =
    "Send activations under `gaussian` alone, and keep one privacy_account for the life of the table; more noise or "
    "fewer epochs lower what each run adds. Audit runs on different tables by ledgers of their own.";

constexpr double kRoundingOfSums = 1e-9;  // Of two ways to the same sum.

// Of all activations that these ledgers show.
struct ActivationLifetime {
  std::optional<double> auc_bound;  // nullopt: some are not counted.
  // If every run sent the same examples: larger than `auc_bound` where an account has counted less than its runs sent,
  // because they are on different rows, or because a copy from before some of them was put back.
  double possible = 0;
  std::vector<std::string> accounts, not_counted;  // Their ids, and the runs'.
};

// What an account counted, as mu^2: the releases of one run, or all of its releases by then.
struct CountedStep {
  std::string at;  // RFC 3339: not the order in which runs begin.
  double own = 0, all = 0;
};

// What runs of one account sent if they sent the same examples, as mu^2: each adds to what the account had counted by
// then, which a copy from before may have forgotten.
double MostSent(std::vector<CountedStep> counted) {
  absl::c_stable_sort(counted, [](const CountedStep& a, const CountedStep& b) { return a.at < b.at; });
  double sum = 0;
  for (const CountedStep& step : counted) {
    sum = std::max(sum + step.own, step.all);
  }
  return sum;
}

// A run is counted when its releases begin. Where it goes on, its account says once more what all of them come to.
void AddCounted(const PartyRecords& party, std::vector<CountedStep>& counted) {
  std::string first, last;
  for (const EventRow& event : party.events) {
    if (event.kind == kReleasesFollow) {
      const std::string at = CountedAt(event);
      first = first.empty() ? at : std::min(first, at);
      last = std::max(last, at);
    }
  }
  const double mu = party.activation_bound.has_value() ? party.activation_bound->mu : 0;
  counted.push_back({first, mu * mu, 0});
  counted.push_back({last, 0, SumKlOfGaussianAuc(party.all_runs->auc_bound)});
}

double AucBoundOfSum(double sum_of_squares) {
  const absl::StatusOr<GaussianPrivacy> privacy = GaussianPrivacy::FromMu(std::sqrt(sum_of_squares));
  return privacy.ok() ? privacy->AucBound() : 1;
}

ActivationLifetime LifetimeOf(const std::vector<LedgerRun>& runs) {
  std::map<std::string, std::vector<CountedStep>> accounts;
  ActivationLifetime lifetime;
  double largest = 0.5;
  for (const LedgerRun& run : runs) {
    const PartyRecords* const party = run.nonlabel_party();
    if (party == nullptr) {
      continue;
    }
    if (party->all_runs.has_value()) {
      AddCounted(*party, accounts[party->all_runs->account]);
      largest = std::max(largest, party->all_runs->auc_bound);
    } else if (party->has_event(kReleasesFollow)) {
      lifetime.not_counted.push_back(run.run_id());
    }
  }
  // An account that was lost, or replaced, knows nothing of what another one has counted: their sums add up.
  double counted = 0, sent = 0;
  for (const auto& [account, of_runs] : accounts) {
    lifetime.accounts.push_back(account.substr(0, 8));
    double most = 0;
    for (const CountedStep& step : of_runs) {
      most = std::max(most, step.all);
    }
    counted += most;
    sent += MostSent(of_runs);
  }
  if (lifetime.not_counted.empty() && !accounts.empty()) {
    // A single account says it to the last bit.
    lifetime.auc_bound = accounts.size() == 1 ? largest : AucBoundOfSum(counted);
    lifetime.possible = std::max(*lifetime.auc_bound, AucBoundOfSum(sent));
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
  finding.found =
      lifetime.auc_bound.has_value()
          ? absl::StrCat(BoundAgainstLimit(*lifetime.auc_bound, limit), ": guaranteed given the bottom model")
      : lifetime.not_counted.empty()
          ? "no bound: no run was counted"
          : absl::StrCat("no bound: no account counts the activations of ", absl::StrJoin(lifetime.not_counted, ", "));
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
                                    ? absl::StrCat(BoundText(labels_auc_bound), ", over all runs on these labels")
                                    : "none proved";
  const std::string of_features =
      lifetime.auc_bound.has_value()
          ? absl::StrCat(
                BoundText(*lifetime.auc_bound), " given the bottom model, by the non-label party's account",
                lifetime.possible > *lifetime.auc_bound + kRoundingOfSums
                    ? absl::StrCat(" (up to ", BoundText(lifetime.possible), " if all runs sent the same examples)")
                    : "")
          : "none proved, as other runs sent activations that no account counts";
  return absl::StrCat("life-long bounds on the AUC: of a label ", of_labels, "; of an example's features ",
                      of_features);
}

}  // namespace splitveil
