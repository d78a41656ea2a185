// What a person sees while runs go on, one after another or several at a time.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_

#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "deploy/operator/local_run/finished_run.h"

#include "common/telemetry/progress.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_
