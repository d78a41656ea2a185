// What an AUC becomes before the attack module may read it (architecture rule 5).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_AUDIT_GRANT_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_AUDIT_GRANT_H_

#include <optional>

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// LABEL_SIDE_ONLY: nothing; ROUNDED: to 0.01; ORACLE: exact. An unknown grant gives nothing. Rounding slows, and does
// not prevent, a party that solves for labels with scores of its own choice (Whitehill, AAAI 2016); one answer a batch
// and attack, which the session enforces, is the other half.
std::optional<double> GrantedAuc(v1::Grant grant, double auc);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_AUDIT_GRANT_H_
