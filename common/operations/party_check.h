// What --check of both programs tries beyond the plan of a run: the places that the run would write to and listen at.
#ifndef SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_
#define SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_

#include <string>

#include "absl/status/status.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// That the ledger can be written (CheckLedgerPath). A run asks too, before it waits for its peer. Errors: as
// CheckLedgerPath, after the configuration file and the field.
absl::Status CheckLedgerOf(const v1::PartyCommon& party, const std::string& config_path);

// That the run could write its ledger and its export, and listen at `listen_address`. Leaves nothing behind. As in
// the plans of both parties, `ledger_path` is relative to the folder of `config_path`, and `export_dir` is resolved.
// Errors: NotFound, InvalidArgument as one line: file, field, expected, found.
absl::Status CheckPlaces(const v1::PartyCommon& party, const std::string& listen_address,
                         const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_PARTY_CHECK_H_
