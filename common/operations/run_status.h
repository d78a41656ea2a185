// Where a run stands, for operators and the progress line.
#ifndef SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
#define SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "common/ledger/ledger.h"
#include "common/process/steady_time.h"

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

// Adds up what is recorded, and measures nothing itself but the rate of steps. Of a ledger of the non-label party it
// takes steps, times and events alone: nothing of losses, leaks, noise, the gate's decisions or evaluations, whatever
// rows come. Its memory is bounded. Not thread-safe.
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

    double mean() const;  // 0 where there is none.
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
  // Errors: as Ledger::Observe.
  absl::Status Watch(Ledger& ledger) ABSL_LOCKS_EXCLUDED(mutex_);

  v1::GetStatusResponse Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);
  v1::RunHistory History() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const SteadyClock clock_;
  mutable absl::Mutex mutex_;
  v1::GetStatusResponse status_ ABSL_GUARDED_BY(mutex_);
  std::optional<LiveFigures> figures_ ABSL_GUARDED_BY(mutex_);  // From Watch on.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_RUN_STATUS_H_
