// What helps where a run leaks more than it should, in terms of the label party's configuration.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_REMEDIES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_REMEDIES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// A sentence or two each. `protection` as the ledger names it: "marvell(s=4)", "none", "" where unknown.

// Against attacks on single batches that reach too much.
std::string RemedyForLeak(absl::string_view protection);
// Against attacks that add up an example's evidence over the epochs.
std::string RemedyForCumulativeLeak(absl::string_view protection);
// Where an attack exceeds its bound. A conditional bound: the gradients are not as it assumes, so another protection. A
// proved one: the programs are not as the proof assumes, so no configuration helps.
std::string RemedyForExceededBound(absl::string_view protection);
// Where a bound must be proved and is not.
std::string RemedyForConditionalBound();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_REMEDIES_H_
