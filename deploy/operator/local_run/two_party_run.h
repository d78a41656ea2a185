// One run of both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/local_run/local_run.h"

namespace splitveil {

// Runs both parties to the end in `folder`, which exists and is empty. Leaves there agreement.textproto,
// PARTY.textproto, PARTY.log, PARTY.out and PARTY.db of either party, and label_party.result.json. `programs`: the
// folder of label_party and nonlabel_party. `stop_requested` is polled. Blocks; no process is left when it returns.
// Errors: Internal with the failed party's exit code and last log line; Cancelled where stop was requested.
absl::Status RunBothParties(const LocalRun& run, const std::string& folder, const std::string& programs,
                            const std::function<bool()>& stop_requested);

// Writes agreement.textproto and PARTY.textproto of either party.
absl::Status WriteConfigs(const LocalRun& run, const std::string& folder);

// Has both programs check the run's configurations (--check), certificates included, in `folder`. Errors:
// InvalidArgument with the party's own words.
absl::Status CheckBothParties(const LocalRun& run, const std::string& folder, const std::string& programs);

// The port that a label party's log names; 0 while it names none.
int ListeningPort(absl::string_view log);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_TWO_PARTY_RUN_H_
