// A run from start to result.json.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_TO_RESULT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_TO_RESULT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/local_run/finished_run.h"
#include "deploy/operator/local_run/local_run.h"

namespace splitveil {

// Finds what is wrong before an hour of runs: CheckBothParties in `folder`, which is made for it and removed.
absl::Status CheckFirst(const LocalRun& run, const std::string& folder, const std::string& programs);

// What the run left in `folder` when it finished. Errors: NotFound where it has not; those of ParseFinishedRun.
absl::StatusOr<RunFigures> FindResult(const LocalRun& run, const std::string& folder);

// Throws away what is in `folder`, runs both parties there (RunBothParties) and writes result.json. Errors: those of
// RunBothParties; what the disk says.
absl::StatusOr<RunFigures> RunToResult(const LocalRun& run, const std::string& folder, const std::string& programs,
                                       const std::function<bool()>& stop_requested);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_RUN_TO_RESULT_H_
