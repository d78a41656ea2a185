// What several releases of one label disclose together, if some have Gaussian noise and some are flips.
#ifndef SPLITVEIL_COMMON_PRIVACY_LABEL_COMPOSITION_H_
#define SPLITVEIL_COMMON_PRIVACY_LABEL_COMPOSITION_H_

#include <vector>

namespace splitveil {

// The largest AUC with which anyone tells two values of a label apart by all releases of it: Gaussian ones whose mu^2
// add to `mu_squared`, and a flip with probability 1 / (1 + e^epsilon) for each of `epsilons`, drawn independently. The
// AUC of the likelihood ratio of the product, which by composition (Dong, Roth, Su, JRSSB 2022, theorem 3.2) bounds
// every adversary, also one that chooses each release by the earlier ones:
//   E[Phi((mu^2 + D) / (sqrt 2 mu))], D = 2 sum_i epsilon_i (B_i - 1), B_i ~ Bin(2, e^epsilon_i / (1 + e^epsilon_i)),
// and without Gaussian noise P(D > 0) + P(D = 0) / 2. Exact while D has at most 65,536 values; flips beyond that, the
// weakest, count as Gaussian noise that discloses more: mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), whose trade-off
// curve passes through the only corner of a flip's, and convex curves through it lie below. In [0.5, 1]; 1 for a number
// that is negative or none (fail closed).
double ComposedAucBound(double mu_squared, std::vector<double> epsilons);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_LABEL_COMPOSITION_H_
