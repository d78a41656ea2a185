// The best any adversary can do against two Gaussian classes, exactly.
#ifndef SPLITVEIL_TESTS_STATISTICAL_LEAKAGE_LIKELIHOOD_RATIO_H_
#define SPLITVEIL_TESTS_STATISTICAL_LEAKAGE_LIKELIHOOD_RATIO_H_

#include "common/leakage/bounds.h"

namespace splitveil {

// AUC of the likelihood ratio p1/p0, which no scoring function exceeds (Neyman-Pearson). In [0.5, 1], to about 1e-9;
// to 1e-4, rounded up, where it is all but 1. Where both classes have the same covariance this is
// Phi(sqrt(sum_kl / 2)) = Phi(d' / sqrt(2)). In general the log ratio is a quadratic form of Gaussians, whose
// characteristic function is known and inverted numerically (Gil-Pelaez, Biometrika 1951):
//   AUC = 1/2 + 1/pi int_0^inf Im phi(t) / t dt,
// phi of the difference of a positive's and a negative's log ratio. Under a millisecond for classes that are hard to
// tell apart. Classes that do not overlap, and invalid input, give 1 (fail closed).
double LikelihoodRatioAuc(const GaussianClasses& classes);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_STATISTICAL_LEAKAGE_LIKELIHOOD_RATIO_H_
