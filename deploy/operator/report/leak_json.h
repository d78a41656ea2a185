// What the attacks reach, as JSON.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_

#include <vector>

#include "deploy/operator/records/attack_leak.h"
#include "deploy/operator/report/charted_layers.h"

#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"

namespace splitveil {

// One object an attack, in the order of `leaks`; with the curve over the batches where `charted` draws it, and what it
// reads more than `baseline`, where that was measured.
Json LeaksJson(const std::vector<AttackLeak>& leaks, const LedgerRun& run, const std::vector<ChartedLayer>& charted,
               const AttackFigure* baseline);

// Cumulative attacks at the cut layer, over the epochs, with their bounds; null without any.
Json CumulativeJson(const std::vector<AttackLeak>& leaks);

// Name, title and explanation of every attack in `runs`, by title.
Json GlossaryJson(const std::vector<std::vector<AttackLeak>>& runs);

// "strongest", of the attacks on gradients, by which runs are ranked; the bound's state in words, its kind and whether
// it is proved; what guessing and features alone reach.
Json RankingJson(const RunFigures& figures);

// Layers and attacks that the page draws.
Json ChartedJson(const std::vector<ChartedLayer>& charted);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_LEAK_JSON_H_
