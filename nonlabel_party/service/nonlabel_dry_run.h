// `nonlabel_party --dry_run`.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_DRY_RUN_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_DRY_RUN_H_

#include <string>

#include "common/operations/dry_run.h"

namespace splitveil {

// Everything about this party's part of a run that can be checked without the peer, each by itself, so that one problem
// hides no other: agreement, configuration, certificates, data, what the run will need; at last all that
// CheckNonLabelParty opens. Writes nothing.
DryRun DryRunNonLabelParty(const std::string& agreement_path, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_DRY_RUN_H_
