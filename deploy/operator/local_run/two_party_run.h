// One run of both parties' programs on this machine, and what the commands that make many of them have in common.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/figures/run_figures.h"
#include "common/telemetry/log.h"

namespace splitveil {

// Runs both parties to the end in `folder`, which exists and is empty. Leaves there agreement.textproto,
// PARTY.textproto, PARTY.log, PARTY.out and PARTY.db of either party, and label_party.result.json. `programs`: the
// folder of label_party and nonlabel_party. `stop_requested` is polled. Blocks; no process is left when it returns.
// Errors: Internal with the failed party's exit code and last log line; Cancelled if stop was requested.
absl::Status RunBothParties(const LocalRun& run, const std::string& folder, const std::string& programs,
                            const std::function<bool()>& stop_requested);

// In text format. Errors: as WriteFile; Internal.
absl::Status WriteText(const std::string& path, const google::protobuf::Message& message);

// Writes agreement.textproto and PARTY.textproto of either party.
absl::Status WriteConfigs(const LocalRun& run, const std::string& folder);

// Has both programs check the run's configurations (--check), certificates included, in `folder`. Errors:
// InvalidArgument with the party's own words.
absl::Status CheckBothParties(const LocalRun& run, const std::string& folder, const std::string& programs);

// The port that a label party's log names; 0 while it names none.
int ListeningPort(absl::string_view log);

// Finds what is wrong before an hour of runs: CheckBothParties in `folder`, which is made for it and removed.
absl::Status CheckFirst(const LocalRun& run, const std::string& folder, const std::string& programs);

// What the run left in `folder` when it finished. Errors: NotFound if it has not; those of ParseFinishedRun.
absl::StatusOr<RunFigures> FindResult(const LocalRun& run, const std::string& folder);

// Throws away what is in `folder`, runs both parties there (RunBothParties) and writes result.json. Errors: those of
// RunBothParties; what the disk says.
absl::StatusOr<RunFigures> RunToResult(const LocalRun& run, const std::string& folder, const std::string& programs,
                                       const std::function<bool()>& stop_requested);

// result.json is the object of the label party's result file with two keys before it: configuration_sha256 and seconds.
// It is written last and at once, so a run is finished where it is there.
absl::StatusOr<std::string> FinishedRunJson(absl::string_view result_json, const std::string& configuration_sha256,
                                            double seconds);

// The figures of result.json, by which runs are compared; `seconds` are those of the whole run: start, alignment,
// training, audit. Errors: FailedPrecondition where it is of another configuration; InvalidArgument where it
// is not what FinishedRunJson writes.
absl::StatusOr<RunFigures> ParseFinishedRun(absl::string_view json, const std::string& configuration_sha256);

struct LocalRunsOptions {
  std::string config_path;               // What to run, as text.
  std::string out;                       // Folder of the results; made if it does not exist.
  int jobs = 1;                          // Runs at a time, each of two processes; >= 1.
  std::string programs;                  // The folder of label_party and nonlabel_party.
  std::function<bool()> stop_requested;  // Polled from several threads.

  std::string FolderOf(const LocalRun& run) const { return absl::StrCat(out, "/runs/", run.name); }
};

// Once the flags are read: fills in the programs beside this one and, where `jobs` is 0, half the cores, for each run
// is two processes; and has the signals that end a program stop the runs in order. Errors: Internal.
absl::Status FindLocalPrograms(LocalRunsOptions& options);

// Calls `run` with 0 to `count` - 1 on options.jobs threads, each with the next number as it becomes free, since runs
// differ in length; no further one once stop is requested. Returns when all calls have.
void ForEachRun(const LocalRunsOptions& options, size_t count, const std::function<void(size_t)>& run);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

// Holds a folder until it is destroyed or the process ends, however it ends: two sweeps or streams would throw away
// each other's runs. The lock is on the file run.lock, which stays.
class FolderLock {
 public:
  // Makes the folder if it does not exist. Errors: InvalidArgument if it cannot be made or is held; AlreadyExists if it
  // has something by a name that these commands write to, but never held runs.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

// A line per run as it ends, and below it how many are done and the time left at the pace so far (Progress).
// Thread-safe.
class RunProgress {
 public:
  // `done` of the `total` runs were finished before. `fd`: where it is written; borrowed.
  RunProgress(int64_t total, int64_t done, int fd = STDERR_FILENO);

  // `run`, `how` it ended: in words, for the line.
  void Finished(const std::string& run, const std::string& how);
  // With its figures on the test part.
  void Finished(const std::string& run, const RunFigures& figures);
  // `name`: what the run's folder is called, for the list at the end.
  void Failed(const std::string& run, const std::string& name, const absl::Status& error);

  // Ends the line on the terminal; call before other output, once no run is under way.
  void Finish();
  // After Finish: OK if all are finished. Errors: Internal with what is missing; names the runs that
  // failed, with their errors, on standard error.
  absl::Status Outcome();

 private:
  void Write(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const std::string& run, const std::string& how) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t SoFar() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Redraws the line of how far all runs are.
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t total_, done_before_;
  const int fd_;
  absl::Mutex mutex_;
  Progress line_ ABSL_GUARDED_BY(mutex_);
  int64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> failed_ ABSL_GUARDED_BY(mutex_);  // Name and error.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
