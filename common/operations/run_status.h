// Where a run stands, for operators and the progress line; where the time of a training step goes.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/ledger/ledger.h"
#include "common/process/steady_time.h"
#include "common/telemetry/log.h"

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// Each point is the mean of as many values. Once there are kMaxPoints, every two of them become one, and each further
// point is the mean of twice as many values. Not thread-safe.
class ThinnedCurve {
 public:
  static constexpr int kMaxPoints = 200;
  struct Point {
    double step = 0;  // Of its last value.
    double value = 0;
  };

  // A value that is not finite is left out.
  void Add(int64_t step, double value);
  // What has come since the latest full point is the last one.
  std::vector<Point> points() const;

 private:
  std::vector<Point> points_;
  int64_t values_per_point_ = 1;
  // Of the point to come.
  int64_t values_ = 0;
  double sum_ = 0, last_step_ = 0;
};

// Adds up what is recorded; measures nothing itself but the rate of steps. At the non-label party it takes only steps,
// times and events: nothing about losses, leaks, noise, the gate's decisions or evaluations, even if rows about them
// come. Its memory is bounded. Not thread-safe.
class LiveFigures {
 public:
  static constexpr size_t kMaxEvents = 50;
  static constexpr int kMaxTests = 200;
  static constexpr size_t kBatchesPerLeak = 20;

  LiveFigures(bool of_label_party, SteadyClock clock) : of_label_party_(of_label_party), clock_(std::move(clock)) {}

  void Take(const RecordedRow& row);
  // What GetStatusResponse says is of the ledger's rows, into `status`, whose step, total_steps and phase are set.
  void AddTo(v1::GetStatusResponse& status) const;
  // At most the kMaxLeakCurves strongest attacks of the label party's own at the cut.
  v1::RunHistory history() const;

 private:
  static constexpr size_t kMaxLeakCurves = 6;
  using LeakKey = std::tuple<std::string, std::string, std::string>;  // Observer, layer, attack.

  struct Leak {
    std::deque<double> latest;  // Inverted AUCs of at most kBatchesPerLeak batches.
    double epoch_auc = 0, epoch_bound = 0;
    ThinnedCurve curve;

    double mean() const;  // 0 if there is none.
  };

  void Take(const StepRow& row);
  void Take(const StepTimeRow& row);
  void Take(const ProtectionRow& row);
  void Take(const LeakRow& row);
  void Take(const EpochLeakRow& row);
  void Take(const EvaluationRow& row);
  void Take(const EventRow& row);

  double StepsPerSecond() const;
  void AddTo(v1::LabelPartyFigures& figures) const;

  const bool of_label_party_;
  const SteadyClock clock_;
  int64_t steps_ = 0, examples_ = 0, bytes_sent_ = 0, bytes_received_ = 0;
  double step_seconds_ = 0;
  std::array<double, kStepPhases.size()> phase_seconds_ = {};
  std::deque<std::pair<SteadyTime, int64_t>> recent_steps_;  // Steps done at times a second apart, oldest first.
  std::deque<EventRow> events_;
  int64_t interruptions_ = 0;
  ThinnedCurve loss_, seconds_, step_bound_;

  // Of the label party alone.
  std::map<LeakKey, Leak> leaks_;
  std::map<std::string, int64_t> gate_;  // Steps by action.
  double latest_step_bound_ = 0;
  bool frozen_ = false;
  std::deque<v1::TestFigures> tests_;
};

// The one place that the terminal, `splitveil status`, the page and Prometheus read: what the session says (phase,
// step) and what the ledger records. Thread-safe.
class RunStatus {
 public:
  // `role`: "label_party" or "nonlabel_party"; of the latter no figure of LabelPartyFigures is kept.
  explicit RunStatus(const char* role, SteadyClock clock = SteadyNow);

  // Changes the status under the lock: `change` gets the message to edit. What LiveFigures adds is not kept.
  template <typename Change>
  void Update(const Change& change) {
    absl::MutexLock lock(&mutex_);
    change(status_);
  }

  // Figures restart, with what `ledger` records from now on, and with its events. Not owned; this must outlive it.
  // Errors: see Ledger::Observe.
  absl::Status Watch(Ledger& ledger) ABSL_LOCKS_EXCLUDED(mutex_);

  // The status as of now: what the session has set, with the figures of the ledger's rows.
  v1::GetStatusResponse Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Curves of the run so far, at most ThinnedCurve::kMaxPoints points each; empty before Watch.
  v1::RunHistory History() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const SteadyClock clock_;
  mutable absl::Mutex mutex_;
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
  std::optional<LiveFigures> figures_ ABSL_GUARDED_BY(mutex_);  // From Watch on.
};

// Not thread-safe.
class AlignmentProgress {
 public:
  // `status`: not owned; must outlive this. Sets its phase to aligning.
  explicit AlignmentProgress(RunStatus* status);

  // As AlignmentOptions::progress: ids masked so far, the own ones once and the peer's once, of `ids_to_mask`. `bytes`:
  // sent and received so far.
  void Report(uint64_t masked_ids, uint64_t ids_to_mask, int64_t bytes);
  // Ends the line on the terminal.
  void Finish();

 private:
  RunStatus* status_;
  Progress line_;
  // The first report: an alignment that resumes does not begin at zero.
  std::optional<std::pair<SteadyTime, uint64_t>> first_;
};

// Not thread-safe.
class TrainingProgress {
 public:
  // `status`: not owned; must outlive this. Sets its phase to training.
  TrainingProgress(RunStatus* status, int64_t epochs, int64_t batches_per_epoch);

  // After a batch. `steps`: batches done; `examples`: trained so far; `loss`: NaN if this party does not know it;
  // `leak`: latest leak AUC in words, may be empty.
  void Report(int64_t steps, int64_t examples, double loss, const std::string& leak);
  // Ends the line on the terminal.
  void Finish();

 private:
  RunStatus* status_;
  int64_t epochs_, batches_per_epoch_;
  Progress line_;
};

// Laps: every moment between Restart and the latest Lap counts for exactly one phase, so the phases of a step add up to
// its seconds. A step runs from the end of the one before it (or from Restart) to its own. Not thread-safe.
class StepStopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Phase = double StepTimeRow::*;

  // `now`: the time; tests pass their own.
  explicit StepStopwatch(std::function<Clock::time_point()> now = Clock::now);

  // The next step starts now: what has passed since the latest one ended belongs to none.
  void Restart();
  // What has passed since the latest lap counts for `phase`.
  void Lap(Phase phase);
  // Counts `seconds` of what this step has for `from`, at most all of it, for `to` instead: for a call that does both.
  void Move(double seconds, Phase from, Phase to);
  // Ends the step at the latest lap; the next one starts there. `row.seconds` becomes the step's.
  StepTimeRow Finish(StepRow& row);

 private:
  const std::function<Clock::time_point()> now_;
  Clock::time_point started_, latest_;
  StepTimeRow times_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
