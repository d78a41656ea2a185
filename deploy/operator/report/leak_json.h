// What the attacks read, as JSON.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_

#include <vector>

#include "deploy/operator/report/attack_leak.h"
#include "deploy/operator/report/json_values.h"

namespace splitveil {

// One object an attack, in the order of `leaks`; with the curve over the batches where `charted` draws it.
Json LeaksJson(const std::vector<AttackLeak>& leaks, const RunRecords& run, const std::vector<ChartedLayer>& charted);

// Attacks at the cut layer that remember, over the epochs, with what the noise allows them; null without any.
Json CumulativeJson(const std::vector<AttackLeak>& leaks);

// Name, title and explanation of every attack in `runs`, by title.
Json GlossaryJson(const std::vector<std::vector<AttackLeak>>& runs);

// Layers and attacks that the page draws.
Json ChartedJson(const std::vector<ChartedLayer>& charted);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_
