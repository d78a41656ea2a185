// `label_party --dry_run`.
#ifndef SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_DRY_RUN_H_
#define SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_DRY_RUN_H_

#include <string>

#include "common/operations/dry_run.h"

namespace splitveil {

// Everything about this party's part of a run that can be checked without the peer, each by itself, so that one problem
// hides no other: agreement, configuration, certificates, data, release policy, privacy account, what the run will
// need; at last all that CheckLabelParty opens. Writes nothing.
DryRun DryRunLabelParty(const std::string& agreement_path, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_DRY_RUN_H_
