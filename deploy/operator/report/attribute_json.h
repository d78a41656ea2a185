// The other direction, sensitive attributes in the activations, as JSON: what page/attributes.js lays out.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTRIBUTE_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTRIBUTE_JSON_H_

#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// Null where the non-label party's ledger was not given, or says nothing of attributes.
Json AttributesJson(const LedgerRun& run);

// What the attacks of all runs do: [{attack, title, explanation}].
Json AttributeGlossaryJson(const std::vector<LedgerRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_ATTRIBUTE_JSON_H_
