// What all runs on the same labels disclose of them together, as far as the ledgers of label parties show it.
#ifndef SPLITVEIL_COMMON_FIGURES_ALL_RUNS_H_
#define SPLITVEIL_COMMON_FIGURES_ALL_RUNS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/ledger/ledger_reader.h"
#include "common/ledger/ledger_rows.h"

namespace splitveil {

// What one run released of its labels.
struct LabelRun {
  enum class Released { kNothing, kUnknown, kSomething };

  RunRow run;                                  // Of the label party.
  std::vector<LabelReleaseRow> releases = {};  // Noise on its labels; empty: the method adds none to them.
  std::optional<AllRunsRow> counted = {};      // By its privacy account.
  std::optional<double> sum_kl = {};           // Of all its releases of one example; nullopt: nothing bounds it.
  int64_t unproved_answers = 0;                // CountUnprovedAnswers: nothing bounds what they reveal,
  bool exact_answers = false;                  // nor those of disclosure ORACLE to scores.
  Released released = Released::kSomething;    // kUnknown: under way, or killed, and may have or be about to.
  std::vector<std::string> lost = {};          // Starts of others that its account counted and knew no more (HasLost).
  // When its account counted its releases, and when it said `counted`: later where an interrupted run goes on
  // (CountedAt). Empty: after all that others had counted by then.
  std::string released_at = {}, counted_at = {};
};

// Whether the gradients of the steps were released: the gate neither halted nor kept them back.
bool IsReleased(const ProtectionRow& row);
bool IsReleased(const StepSummaryRow& row);

// What the release gate decided of a run's steps. Of old ones only summaries are kept, so both kinds of rows count.
struct StepDecisions {
  bool any = false;       // It decided something.
  bool learned = false;   // It did not halt all of them: a head has learned, which may be served, or be where a later
                          // run starts.
  bool released = false;  // IsReleased of one of them.
};
StepDecisions DecisionsOf(absl::Span<const ProtectionRow> steps, absl::Span<const StepSummaryRow> removed);

// Whether an earlier start of the run may have sent gradients, whatever rows there are now: those of steps are removed
// where a run goes back to a checkpoint. The label party has kFirstSliceSent on the disk before the first of them;
// earlier programs did not, so a start of theirs that ended without a word, killed, may have sent some.
bool MayHaveReleasedBefore(absl::Span<const EventRow> events);

// Whether the run, of which these are the rows in the label party's ledger, has sent gradients. kUnknown, too, as long
// as it is under way and has not begun to: of two that begin at once, each must count the other.
LabelRun::Released ReleasedGradients(const RunRecord& record, absl::Span<const EventRow> events,
                                     const StepDecisions& decisions);

// What the ledger of a label party shows of one of its runs, but for sum_kl. `counted`, `releases`, `events`: its rows;
// `decisions`: not needed where the events have kFirstSliceSent.
LabelRun LabelRunOf(const RunRecord& record, std::vector<LabelReleaseRow> releases, std::optional<AllRunsRow> counted,
                    absl::Span<const EventRow> events, const StepDecisions& decisions);

// Whether one of these starts (LabelRun::lost) is of this run.
bool HasLost(absl::Span<const std::string> starts, absl::string_view run_id);

// Before the detail of the label party's kReleasesFollow: what follows begins with that event, on the disk.
inline constexpr char kAfterFirstSlice[] = "after first_slice_sent: ";
// Detail of the event kReleasesFollow, of that many examples. `start`: as which their account has counted them
// (PrivacyAccount::Start); empty: none has.
std::string ReleasesFollow(int64_t examples, absl::string_view start);
// When the account counted them, in the order in which it did (TimeOfStart); without an account, when
// the event was recorded. RFC 3339, UTC. `event`: a kReleasesFollow.
std::string CountedAt(const EventRow& event);
// The starts that these events name. The account knew of each before.
std::vector<std::string> StartsIn(absl::Span<const EventRow> events);

// Whether two runs are about the same labels. Those of one table are. Of two tables nobody knows whether the same
// examples are in both, but where one account has counted both, example by example.
enum class SameLabels { kNo, kUnknown, kYes };
SameLabels AreOnSameLabels(const RunRow& a, const RunRow& b);

// Whether the max_lifetime_auc_bound of one holds for the other: on the same labels, or on a table that has changed, of
// which one account counts the same label set.
bool ShareLimit(const RunRow& a, const RunRow& b);

struct AllRunsBound {
  // AUC of an adversary that keeps all that was released of the most exposed example.
  double known = 0.5;                 // By the runs that are about the same labels.
  double possible = 0.5;              // By those, too, that may be, or released what nothing bounds.
  double limit = 1;                   // The least max_lifetime_auc_bound that holds for the last one (ShareLimit).
  int64_t runs = 0;                   // How many these are.
  std::vector<std::string> accounts;  // That counted some of them, in order.
  bool counts_last = true;            // False: it released nothing, and no account has counted that it might.
  bool has_earlier = true;            // No run resumes from one that is not among `runs`, uncounted by an account.
  std::string doubt;                  // Why `possible` is above `known`; empty: it is not.
  // The first of all these runs whose part is bounded under assumptions, or not at all; empty: all of it is proved.
  std::string not_proved;
};

// The divergence whose GaussianAucBound is `auc_bound`; infinite for 1.
double SumKlOfGaussianAuc(double auc_bound);

// Over the runs on the labels of the last one, which are in the order they were opened: itself and those before it.
//
// Gaussian noise adds by mu^2. Within an account a draw counts once, however often it is released, and the account's
// own figure counts if it is larger: it knows runs that are in no ledger. If it is smaller, the account has lost some
// (a copy or a backup that was put back), or the runs had different examples (two partners, one table): what the
// ledger's rows add up to is known only if their examples do not fit into the table without one that all share, else
// possible. Flips of different runs are independent, so they add, and so do the divergences of methods that are bounded
// under assumptions; such a sum is as conditional as they are. All together: ComposedAucBound.
AllRunsBound BoundOfAllRuns(absl::Span<const LabelRun> runs);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_ALL_RUNS_H_
