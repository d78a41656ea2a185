// What the label party's ledger records of earlier runs on the labels of a run that is about to begin.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/dataset/dataset.h"
#include "common/figures/all_runs.h"
#include "common/ledger/ledger_rows.h"
#include "common/privacy_account/privacy_account.h"

#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Writes into `row` whose labels the run is about. `account_id`: PrivacyAccount::id; empty: none counts the run.
void DescribeLabels(const v1::LabelPartyConfig& config, const Dataset& data, const std::string& account_id,
                    RunRow& row);

// The noise of `releases` (LabelReleasesOf) on labels of `task`, as a ledger has it.
std::vector<LabelReleaseRow> LabelReleaseRows(const v1::LabelReleases& releases, const Task& task);

// The privacy account that counted the ledger's latest run on the labels of `run`, if no run on them was counted by the
// account of `run`. Empty: no different account, or the operator accepted the change before. Errors: see LedgerReader.
absl::StatusOr<std::string> OtherAccount(const std::string& ledger_path, const RunRow& run);

// Checks that the account of `run` is the one that counted the ledger's runs on these labels, or that the operator has
// accepted a new one (`new_account`). Errors: InvalidArgument with both accounts; see LedgerReader.
absl::Status CheckSameAccount(const std::string& ledger_path, const RunRow& run, bool new_account);

// What the account of `config` is opened with, for labels of `task`.
PrivacyAccountOptions AccountOptions(const v1::PrivacyAccount& config, const Task& task);

// The starts of the ledger's runs that `account` counted and does not know of: an older copy of it was put in the place
// of the one that does. The operator may accept that (`new_account`); but not beside another table under the same label
// set, as the noise would be the same and a changed label would show in the difference. Accepted once, it stays so, for
// these starts. Errors: InvalidArgument; see LedgerReader.
absl::StatusOr<std::vector<std::string>> LostStarts(const std::string& ledger_path, const RunRow& run, bool new_account,
                                                    const PrivacyAccount& account);

// The same of the account that the file has now; none without an account.
absl::StatusOr<std::vector<std::string>> LostStartsNow(const std::string& ledger_path, const RunRow& run,
                                                       const v1::LabelPartyConfig& config, const Task& task);

// The least max_lifetime_auc_bound of `run` and of the ledger's runs that released something and share it (ShareLimit):
// a limit is for life, whatever later configurations say. Errors: see LedgerReader.
absl::StatusOr<double> LeastLimit(const std::string& ledger_path, const RunRow& run);

// What the releases that `planned` will make, with all those of the ledger's other runs on the same labels, whichever
// account counted them, disclose together (BoundOfAllRuns). Those that the account has lost, and those of another
// account on another table under the same label set, count in full: whether they had the same examples, nobody knows.
// `known`, which is held to the limit, leaves out what the account of `planned` says of its other runs, as they may
// have had other examples. `possible`, which is what may be stated: with that, and those on other tables, too, that no
// one account has counted; 1 if nothing proved bounds one of them all. Errors: see LedgerReader.
absl::StatusOr<AllRunsBound> BoundWithLedger(const std::string& ledger_path, const LabelRun& planned);

// Checks that they stay within the least max_lifetime_auc_bound of these runs, which none does without a proof. Error:
// ResourceExhausted, marked as a halt.
absl::Status CheckLifetime(const AllRunsBound& bound);

// CheckLifetime of a new run together with the ledger's. And one whose own bound is not proved breaks no promise: no
// run of the ledger has released these labels under a max_lifetime_auc_bound. Errors: ResourceExhausted, marked as a
// halt; see LedgerReader.
absl::Status CheckEarlierRuns(const std::string& ledger_path, const LabelRun& planned);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_LABEL_HISTORY_H_
