// What a recorded run promises, from its ranking.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_PROMISE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_PROMISE_H_

#include "deploy/operator/records/run_ranking.h"

#include "common/ledger/promise.h"

namespace splitveil {

// The strongest attack that can be held against the run's bound: under a proved bound, which is about what gradients
// add to features, the worst case; else the strongest of all on gradients. No attack: none was measured.
const RankedAttack& HeldAgainstBound(const RunRanking& ranking);

Promise PromiseOf(const RunRanking& ranking);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_PROMISE_H_
