// tradeoff.html: leak against quality on one self-contained page that opens offline.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/operator/sweep/tradeoff.h"

namespace splitveil {

// The page's figures and words as one JSON object, safe inside a <script> element: page/tradeoff.js lays it out and
// computes none. Charts come in the order of LayersAndAttacks, two each: leak AUC against best test AUC, and against
// test log-loss, as in Li et al., ICLR 2022, Figures 4 and 7 to 9. `planned`: runs of the sweep, finished or not.
std::string TradeoffJson(const std::vector<SweptRun>& runs, int64_t planned);

// The whole document.
std::string TradeoffPage(const std::vector<SweptRun>& runs, int64_t planned);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_
