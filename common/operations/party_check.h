// What --check of both programs tries beyond the plan of a run, the places that the run would write to and listen at;
// and who may read what a run keeps there.
#ifndef SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_
#define SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_

#include <string>

#include "absl/status/status.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// That the ledger can be written (CheckLedgerPath). A run asks too, before it waits for its peer. Errors: as
// CheckLedgerPath, after the configuration file and the field.
absl::Status CheckLedgerOf(const v1::PartyCommon& party, const std::string& config_path);

// That the run could write its ledger and its export, and listen at `listen_address` and elsewhere for its monitoring.
// Leaves nothing behind. As in the plans of both parties, `ledger_path` is relative to the folder of `config_path`, and
// `export_dir` is resolved. Errors: NotFound, InvalidArgument as one line: file, field, expected, found.
absl::Status CheckPlaces(const v1::PartyCommon& party, const std::string& listen_address,
                         const std::string& config_path);

// Takes from everybody but the owner what they may do with the party's data, ledger and checkpoints, which tell of ids
// and labels: Splitveil writes such files for their owner alone, but copies and files of older versions are as the
// umask has it. With a warning for each, also for one that is another user's and stays as it is. For a run; --check
// changes nothing.
void KeepForOwnerAlone(const v1::PartyCommon& party, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_
