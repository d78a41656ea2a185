// Which of many attacks the page draws.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_CHARTED_LAYERS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_CHARTED_LAYERS_H_

#include <string>
#include <vector>

#include "deploy/operator/records/attack_leak.h"

namespace splitveil {

// Attacks at a layer that the page draws.
struct ChartedLayer {
  std::string layer;
  std::vector<std::string> attacks;
};

// The cut layer and up to three others. Of a single run up to four attacks at each, of several the two that are
// strongest on average; attacks beyond their bound come first, those that read no gradient last.
std::vector<ChartedLayer> ChooseCharts(const std::vector<std::vector<AttackLeak>>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_CHARTED_LAYERS_H_
