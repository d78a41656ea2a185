// What a person sees while runs go on, one after another or several at a time.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/finished_run.h"

namespace splitveil {

// One line a run on standard error, as each ends, with the time left at the pace so far. Thread-safe.
class RunProgress {
 public:
  // `done` of the `total` runs were finished before.
  RunProgress(int64_t total, int64_t done);

  // `run`: in words, for the line.
  void Finished(const std::string& run, const RunFigures& figures);
  // `name`: what the run's folder is called, for the list at the end.
  void Failed(const std::string& run, const std::string& name, const absl::Status& error);

  // Once no run is under way: OK where all are finished. Errors: Internal with what is missing; names the runs that
  // failed, with their errors, on standard error.
  absl::Status Outcome();

 private:
  void Write(const std::string& run, const std::string& what);

  const int64_t total_, done_before_;
  const absl::Time started_;
  std::mutex mutex_;
  int64_t finished_ = 0;             // Guarded by mutex_, as is what follows.
  std::vector<std::string> failed_;  // Name and error.
};

// "about 12 min left", from what `ended` runs took together; for a line a person reads.
std::string TimeLeft(absl::Duration elapsed, int64_t ended, int64_t left);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_PROGRESS_H_
