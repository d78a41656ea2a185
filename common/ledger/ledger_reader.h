// Typed read access to a ledger, for reports and audits. Reads while a run writes: sees what was committed.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_READER_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_READER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"

namespace splitveil {

class SqliteDatabase;

struct RunRecord {
  RunRow run;
  std::string started_at, finished_at;  // RFC 3339, UTC, milliseconds. finished_at is empty while the run is open.
  std::string status;                   // running, completed, stopped, failed, halted.
};

// One attack at one layer as one observer measured it, in step order. Steps without an AUC (one class) are left out.
struct LeakSeries {
  std::string observer, layer, attack;
  std::vector<int64_t> steps = {};  // The latest, as of all rows of single steps.
  std::vector<double> aucs = {};    // As many as steps; finite.
  // Over all steps of the run, those that the ledger no longer has included: of these, `p95` takes the worst. Over more
  // than StepSeries::kMost steps, it is too high by 1.6e-5 at most.
  LeakSummary summary = {};
  double p95_at_least = std::numeric_limits<double>::quiet_NaN();  // Takes 0.5 of them; NaN if none was removed.
};

// Numbers that are NULL in the ledger are read as NaN. Errors of every method: DataLoss for a damaged file, Internal
// while it is locked. An unknown run_id has no rows. Every call sees one committed state. Memory does not grow with the
// steps of a run: of more than `most_steps`, the latest are read one by one, and the others as summaries, as if
// PartyCommon.ledger_retained_steps had removed them. Not thread-safe: one reader per thread.
class LedgerReader {
 public:
  static constexpr int64_t kMostSteps = int64_t{1} << 18;  // 0.2 GB with every attack.

  // Errors: NotFound; InvalidArgument if the file is no ledger of this version or cannot be opened. The file is not
  // changed. While it is read, SQLite keeps its `-wal` and `-shm` files beside it, so the folder must be writable
  // unless they exist; with the last reader they go, but for those of a run that writes or that ended without a word.
  static absl::StatusOr<std::unique_ptr<LedgerReader>> Open(const std::string& path, int64_t most_steps = kMostSteps);
  ~LedgerReader();

  // In the order they started.
  absl::StatusOr<std::vector<RunRecord>> Runs();
  // In step order, as all rows of single steps. Those that are summarised are left out.
  absl::StatusOr<std::vector<StepRow>> Steps(const std::string& run_id);
  // By epoch, of all that the file has.
  absl::StatusOr<std::vector<EpochStepsRow>> EpochSteps(const std::string& run_id);
  absl::StatusOr<std::vector<StepTimeRow>> StepTimes(const std::string& run_id);
  absl::StatusOr<std::vector<ProtectionRow>> Protections(const std::string& run_id);
  // By step and split.
  absl::StatusOr<std::vector<EvaluationRow>> Evaluations(const std::string& run_id);
  // By layer ("cut" first), attack, observer and epoch.
  absl::StatusOr<std::vector<EpochLeakRow>> EpochLeaks(const std::string& run_id);
  // By epoch, quantity, class and bin.
  absl::StatusOr<std::vector<DistributionRow>> Distributions(const std::string& run_id);
  // nullopt: the run claims nothing that could be refuted, or has not ended.
  absl::StatusOr<std::optional<ClaimCheckRow>> ClaimCheck(const std::string& run_id);
  absl::StatusOr<std::optional<AllRunsRow>> AllRuns(const std::string& run_id);
  // By attribute, attack, examples and epoch.
  absl::StatusOr<std::vector<AttributeLeakRow>> AttributeLeaks(const std::string& run_id);
  // By attribute and step.
  absl::StatusOr<std::vector<PrivacyLossRow>> PrivacyLosses(const std::string& run_id);
  // nullopt: nothing is proved of the activations.
  absl::StatusOr<std::optional<ActivationBoundRow>> ActivationBound(const std::string& run_id);
  // In the order they were recorded.
  absl::StatusOr<std::vector<EventRow>> Events(const std::string& run_id);
  // Of the steps that were removed (PartyCommon.ledger_retained_steps) or are too many; empty if there are none. By
  // first step, method and gate. Of the latter, those with the same method and gate stand apart if their bounds differ
  // by more than 1.6e-5.
  absl::StatusOr<std::vector<StepSummaryRow>> StepSummaries(const std::string& run_id);
  // By attribute; those that were removed, then those that are too many.
  absl::StatusOr<std::vector<PrivacyLossSummaryRow>> PrivacyLossSummaries(const std::string& run_id);
  // By noise and size of the noise.
  absl::StatusOr<std::vector<LabelReleaseRow>> LabelReleases(const std::string& run_id);
  // By observer, layer and attack, "cut" before the other layers.
  absl::StatusOr<std::vector<LeakSeries>> Leaks(const std::string& run_id);

 private:
  // Up to which step, included, the file has summaries; and up to which its rows are read as summaries. -1: none.
  struct Summarised {
    int64_t in_file = -1, last = -1;
  };

  LedgerReader(std::unique_ptr<SqliteDatabase> database, int64_t most_steps);
  // Found at the first call for a run, so that a run that goes on has the same rows in all of them.
  absl::StatusOr<Summarised> SummarisedOf(const std::string& run_id);
  // ReadRows of a table of single steps, without those that are summarised: a run that was interrupted may have
  // recorded some of them again.
  template <typename Row>
  absl::StatusOr<std::vector<Row>> ReadSteps(const std::string& run_id, const char* order);

  std::unique_ptr<SqliteDatabase> database_;
  const int64_t most_steps_;
  std::map<std::string, Summarised> summarised_;  // By run_id.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_READER_H_
