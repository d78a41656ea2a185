#include "deploy/operator/records/run_promise.h"

namespace splitveil {

const RankedAttack& HeldAgainstBound(const RunRanking& ranking) {
  // Every attack but the worst case ranks by features as well, which a proved bound is not about.
  const bool worst_case = ranking.proved || ranking.worst_case.auc >= ranking.strongest().auc;
  return worst_case ? ranking.worst_case : ranking.strongest();
}

Promise PromiseOf(const RunRanking& ranking) {
  Promise promise;
  promise.standing = ranking.standing;
  promise.run_auc_bound = ranking.run_auc_bound;
  if (ranking.all_runs.has_value() && ranking.all_runs->auc_bound > ranking.run_auc_bound) {
    promise.all_runs_auc_bound = ranking.all_runs->auc_bound;
  }
  promise.measured_auc = HeldAgainstBound(ranking).auc;
  return promise;
}

}  // namespace splitveil
