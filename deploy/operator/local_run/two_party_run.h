// One run of both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/figures/run_figures.h"

namespace splitveil {

// Runs both parties to the end in `folder`, which exists and is empty. Leaves there agreement.textproto,
// PARTY.textproto, PARTY.log, PARTY.out and PARTY.db of either party, and label_party.result.json. `programs`: the
// folder of label_party and nonlabel_party. `stop_requested` is polled. Blocks; no process is left when it returns.
// Errors: Internal with the failed party's exit code and last log line; Cancelled if stop was requested.
absl::Status RunBothParties(const LocalRun& run, const std::string& folder, const std::string& programs,
                            const std::function<bool()>& stop_requested);

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

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
