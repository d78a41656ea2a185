// What the label party's ledger says of earlier runs on the labels of a run that is about to begin.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/dataset/dataset.h"
#include "common/figures/all_runs.h"
#include "common/ledger/ledger_rows.h"

#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Writes into `row` whose labels the run is about. `account_id`: PrivacyAccount::id; empty: none counts the run.
void DescribeLabels(const v1::LabelPartyConfig& config, const Dataset& data, const std::string& account_id,
                    RunRow& row);

// The noise of `releases` (LabelReleasesOf) on labels of `task`, as a ledger has it.
std::vector<LabelReleaseRow> LabelReleaseRows(const v1::LabelReleases& releases, const Task& task);

// The privacy account by which the ledger's latest run on these labels was counted, where none was counted by that of
// `run`; empty: there is no other one, or it has been accepted before. Errors: as LedgerReader.
absl::StatusOr<std::string> OtherAccount(const std::string& ledger_path, const RunRow& run);

// That the account of `run` is the one in which the ledger's runs on these labels were counted, or that the operator
// has said otherwise (`new_account`). Errors: InvalidArgument with both accounts; as LedgerReader.
absl::Status CheckSameAccount(const std::string& ledger_path, const RunRow& run, bool new_account);

// That what `planned` will release, with all that the ledger's runs on the same labels did, whichever account counted
// them, stays within the least max_lifetime_auc_bound of any of them. Errors: ResourceExhausted, marked as a halt; as
// LedgerReader.
absl::Status CheckLifetime(const std::string& ledger_path, const LabelRun& planned);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_
