// What the commands share that run both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "deploy/operator/local_run/two_party_run.h"

#include "common/telemetry/progress.h"

namespace splitveil {

struct LocalRunsOptions {
  std::string config_path;               // What to run, as text.
  std::string out;                       // Folder of the results; made if it does not exist.
  int jobs = 1;                          // Runs at a time, each of two processes; >= 1.
  std::string programs;                  // The folder of label_party and nonlabel_party.
  std::function<bool()> stop_requested;  // Polled from several threads.
};

// Once the flags are read: fills in the programs beside this one and, where `jobs` is 0, half the cores, for each run
// is two processes; and has the signals that end a program stop the runs in order. Errors: Internal.
absl::Status FindLocalPrograms(LocalRunsOptions& options);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

// Holds a folder until it is destroyed or the process ends, however it ends: two sweeps or streams would throw away
// each other's runs. The lock is on the file run.lock, which stays.
class FolderLock {
 public:
  // Makes the folder if it does not exist. Errors: InvalidArgument if it cannot be made or is held.
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

  // `run`: in words, for the line.
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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
