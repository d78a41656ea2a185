// One figure over several seeds.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SPREAD_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SPREAD_H_

#include <vector>

namespace splitveil {

// One figure over the seeds that measured it. All NaN where none did.
struct Spread {
  double mean = 0, min = 0, max = 0;
};

// Of the finite ones among `values`.
Spread SpreadOf(const std::vector<double>& values);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SPREAD_H_
