// tradeoff.html: what leaks against model quality on one self-contained page that opens offline.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/operator/sweep/tradeoff.h"

#include "common/figures/json_number.h"

namespace splitveil {

// The page's figures and words: page/tradeoff.js lays them out and computes none. Charts: the strongest attack against
// best test AUC and against test log loss (of regressions R^2 and RMSE); then, under a fold, the strongest layers and
// attacks one by one, with norm and cosine at the cut and the first layer as in Li et al., ICLR 2022, Figures 4 and 7
// to 9. `planned`: runs of the sweep, finished or not.
Json TradeoffJson(const std::vector<SweptRun>& runs, int64_t planned);

// The whole document.
std::string TradeoffPage(const std::vector<SweptRun>& runs, int64_t planned);

// Null where no run says anything of it.
Json AttributeTradeoffJson(const std::vector<SweptRun>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_TRADEOFF_PAGE_H_
