// The checks of --dry_run that both parties share: everything but what only one of them has.
#ifndef SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_CHECKS_H_
#define SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_CHECKS_H_

#include <memory>
#include <optional>
#include <string>

#include "common/dataset/dataset.h"
#include "common/dataset/prepared_data.h"
#include "common/operations/dry_run.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Each adds its findings to `dry_run`.

// That the agreement is valid, with its fingerprint; nullopt where it is not.
std::optional<v1::RunAgreement> DryRunAgreement(const std::string& path, DryRun& dry_run);
// That files, names, keys and dates fit (LoadTlsIdentity); warns of certificates that end soon.
void DryRunCertificates(const v1::Identity& identity, const std::string& config_path, DryRun& dry_run);
// That the data are this party's, and of the agreed split; null where they are not.
std::shared_ptr<const Dataset> DryRunData(const v1::PartyCommon& party, const std::string& config_path,
                                          const v1::RunAgreement& agreement, PreparedFor owner, DryRun& dry_run);
// Whether the ledger has room for one more alignment (PartyCommon.max_alignments); nothing where there is no limit. A
// run that resumes from a checkpoint needs none.
void DryRunAlignments(const v1::PartyCommon& party, const std::string& config_path, DryRun& dry_run);
// What the run will need, against what the machine has.
void DryRunExpectation(const v1::RunAgreement& agreement, const Dataset& data, DryRun& dry_run);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_DRY_RUN_CHECKS_H_
