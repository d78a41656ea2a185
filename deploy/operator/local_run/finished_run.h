// What a finished run left in its folder: result.json.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// result.json is the object of the label party's result file with two keys before it: configuration_sha256 and seconds.
// It is written last and at once, so a run is finished where it is there.
absl::StatusOr<std::string> FinishedRunJson(absl::string_view result_json, const std::string& configuration_sha256,
                                            double seconds);

// The figures of result.json, by which runs are compared; `seconds` are those of the whole run: start, alignment,
// training, audit. Errors: FailedPrecondition where it is of another configuration; InvalidArgument where it
// is not what FinishedRunJson writes.
absl::StatusOr<RunFigures> ParseFinishedRun(absl::string_view json, const std::string& configuration_sha256);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_
