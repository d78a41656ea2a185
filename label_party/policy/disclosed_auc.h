// What an AUC becomes before the attack module may read it (architecture rule 5).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_

#include <optional>

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// What the attack module reads of a leak AUC as it is. ORACLE: all of it, where there is one. Every other disclosure,
// an unknown one among them: nothing; what ROUNDED gives is made of other numbers (rounded_answers.h).
std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_
