// A proposed agreement from where one party stands.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_OWN_VIEW_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_OWN_VIEW_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/agreement/agreed_values.h"
#include "deploy/operator/party_config/party_config.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Whether this party's configuration and prepared data can keep the agreement: its model has the cut, its protection
// and release policy fit, its data are its own and of the agreed split. `config_path`: paths in `config` are relative
// to its folder. Errors: InvalidArgument, NotFound as one line that begins with the file.
absl::Status CheckAgainstOwn(const v1::RunAgreement& agreement, const PartyConfig& config,
                             const std::string& config_path);

// Fields of `values` that disclose more of this party's secrets than the defaults do, labels or features, and that
// `allowed` does not name. Epochs are none of them where the party's own protection covers however many there are.
std::vector<std::string> NotAllowed(const std::vector<AgreedValue>& values, const PartyConfig& config,
                                    const std::vector<std::string>& allowed);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_OWN_VIEW_H_
