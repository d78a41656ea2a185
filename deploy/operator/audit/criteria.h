// The criteria of an audit, and what an audit finds of one. Each function judges one kind of criterion: one finding
// for each limit that the policy sets, in the same order for every run.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CRITERIA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CRITERIA_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/all_runs.h"
#include "common/figures/run_figures.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// What stands in Finding.found where there is no figure: it was not recorded, or there was nothing to record.
inline constexpr char kNotMeasured[] = "not measured";
inline constexpr char kNothingLeft[] = "no gradient was released";
inline constexpr char kKeepStepsRemedy[] =
    "Keep more steps in the next run's ledger: a larger party.ledger_retained_steps, or 0 for all.";

enum class Outcome {
  kMet,
  kNotMet,
  kNotMeasured,    // Should have been recorded, and was not: counts as not met.
  kNotMeasurable,  // Stands in a ledger only that was not given: decides nothing.
  kOpen,           // These ledgers cannot show it, as `found` says: decides nothing.
};

// Whose ledger shows it.
enum class LedgerHolder { kLabelParty, kNonLabelParty };

// What was found of one criterion.
struct Finding {
  Outcome outcome = Outcome::kNotMeasured;
  std::string criterion;    // In words.
  std::string limit;        // "at most 0.6", "marvell".
  std::string found;        // The figure that decided, the worst, and what it is; or "not measured" and why.
  std::string where;        // Its layer, attack and observer, step or epoch, nothing else. Empty: the run as a whole.
  std::string remedy = "";  // What helps, one sentence; empty where nothing is wrong.
  LedgerHolder holder = LedgerHolder::kLabelParty;

  // "label party's", "non-label party's".
  const char* holder_words() const {
    return holder == LedgerHolder::kLabelParty ? "label party's" : "non-label party's";
  }

  bool failed() const { return outcome == Outcome::kNotMet || outcome == Outcome::kNotMeasured; }
};

// Until its figure is found: not measured.
inline Finding NotMeasured(std::string criterion, std::string limit, std::string found, std::string remedy) {
  return {Outcome::kNotMeasured, std::move(criterion), std::move(limit), std::move(found), "", std::move(remedy)};
}

// Status, disclosures, protections and gate decisions always; the model's quality where the policy limits it.
std::vector<Finding> ConductFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

// The share audited always; leaks and true positive rates where the policy limits them.
std::vector<Finding> LeakFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

// Whether all of `text` is as `pattern` says: * stands for any text, also none, ? for any one character.
bool MatchesGlob(absl::string_view pattern, absl::string_view text);

// Of each of the runs, in the order in which they started, what it and those before it on the same labels disclose
// together: whichever account counted them, the partner keeps what they sent. Of no runs for one that only predicts, or
// without the label party's ledger.
std::vector<AllRunsBound> BoundsOfAllRuns(const std::vector<LedgerRun>& runs);

// FiguresOf the run with its bound of BoundsOfAllRuns.
RunFigures FiguresWith(const LedgerRun& run, const AllRunsBound& all_runs);
// Of all runs, in the order in which they started.
std::vector<RunFigures> FiguresOfAll(const std::vector<LedgerRun>& runs);

// Bounds of the run and of its steps where the policy limits them, that they are proved where it asks for that, and
// that no attack exceeds them; always, where the run has recorded it, that its own scores do not refute the mu that it
// claims. A run that released no gradient meets all of them. `all_runs`: of the runs on its labels up to this one,
// which are held to the limit of the run's bound, and to the privacy account's own if there is one.
// `figures`: of the run (FiguresWith).
std::vector<Finding> BoundFindings(const LedgerRun& run, const RunFigures& figures, const v1::AuditPolicy& policy,
                                   const AllRunsBound& all_runs);

// One finding for each limit that the policy sets on attacks on attributes and on the privacy loss. All stand in the
// non-label party's ledger.
std::vector<Finding> AttributeFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

// That the activations of the run keep the policy's bound, where it sets one. Stands in the non-label party's ledger.
std::vector<Finding> ActivationFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

// That all activations of all `runs`, those of `run` among them, keep the policy's life-long bound, where it sets one.
// Accounts that differ add up; a run that no account counts has no bound. Stands in the non-label party's ledgers.
std::vector<Finding> LifetimeFindings(const std::vector<LedgerRun>& runs, const LedgerRun& run,
                                      const v1::AuditPolicy& policy);

// Both directions' life-long bounds in one line; empty for a run without an account of activations. `labels_auc_bound`:
// AllRunsBound.possible.
std::string LifetimeLine(const std::vector<LedgerRun>& runs, const LedgerRun& run, double labels_auc_bound);

// A figure of one attack at one layer as one observer scored it; NaN: not measured.
struct LimitedFigure {
  std::string layer, attack, observer;  // No observer: agreed on, and recorded by nobody.
  double value = 0;                     // What is held to the limit.
  int64_t epoch = -1;                   // Of a figure over an epoch; -1 of others.
  // What was measured, where `value` is the far end of its 95% interval; NaN of others.
  double measured = std::numeric_limits<double>::quiet_NaN();
  // Of a figure that is known between two ends, `value` being the upper one: steps are no longer in the ledger.
  double at_least = std::numeric_limits<double>::quiet_NaN();
};

// To three digits as everywhere; to more where three could not be told from the limit.
std::string AgainstLimit(double value, double limit);
// The same of a bound, which is rounded upwards, as a promise is.
std::string BoundAgainstLimit(double bound, double limit);

using EpochFigure = std::function<double(const EpochLeakRow&)>;

// `value` of each attack's last row, with what was measured. NaN if gradients were released in later epochs, unless the
// attack runs once a run. `measured` may be empty.
std::vector<LimitedFigure> FiguresAfterLastEpoch(const PartyRecords& party, const EpochFigure& value,
                                                 const EpochFigure& measured = {});

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CRITERIA_H_
