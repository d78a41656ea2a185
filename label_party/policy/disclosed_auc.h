// What an AUC becomes before the attack module may read it (architecture rule 5).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_

#include <optional>

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// What the attack module reads of a leak AUC. LABEL_SIDE_ONLY: nothing. ROUNDED: one answer per batch (the first agreed
// layer and attack; `answers_before` counts those before), to 0.01, and 0.5 where there is no AUC, since the absence
// would tell that the batch has one class. ORACLE: the exact AUC where there is one. An unknown disclosure gives
// nothing. Rounding slows, and does not prevent, a party that solves for labels with scores of its own choice
// (Whitehill, AAAI 2016).
std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc, int answers_before);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_DISCLOSED_AUC_H_
