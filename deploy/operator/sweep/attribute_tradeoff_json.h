// The other direction of a sweep as JSON: what page/attributes.js lays out.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_JSON_H_

#include <vector>

#include "deploy/operator/sweep/tradeoff.h"

#include "common/figures/json_number.h"

namespace splitveil {

// Null where no run says anything of it.
Json AttributeTradeoffJson(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_ATTRIBUTE_TRADEOFF_JSON_H_
