// What no adversary can exceed, from the divergence of the two perturbed class distributions.
#ifndef SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_
#define SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_

#include <cstdint>

namespace splitveil {

// Two Gaussians in R^d whose means differ by dg and whose covariances share their axes: variance `along` on the line of
// dg and `across` on each of the d - 1 directions orthogonal to it. Class c of a gradient with variance var_c that is
// perturbed as Theorem 2 says has along_c = lambda1_c + var_c and across_c = lambda2_c + var_c
// (Li et al., ICLR 2022, section 4.2).
struct GaussianClasses {
  int64_t d = 1;
  double dg_squared = 0;  // ||dg||^2
  double along_neg = 0, across_neg = 0;
  double along_pos = 0, across_pos = 0;
};

// KL(P1 || P0) + KL(P0 || P1)
//   = 1/2 [ (d-1) (b0-b1)^2 / (b0 b1) + (a0-a1)^2 / (a0 a1) + ||dg||^2 (1/a0 + 1/a1) ], a = along, b = across.
// The objective of equation (15) less its constant 2d, written so that equal classes give exactly 0 and nothing
// cancels. Limits: two variances of zero are equal and add nothing; zero against positive adds +inf, as does ||dg|| > 0
// along a variance of zero. NaN, negative variances and d < 1 give +inf (fail closed).
double SumKl(const GaussianClasses& classes);

// Largest AUC of any scoring function when the symmetrised KL divergence is sum_kl (Li et al., ICLR 2022, Theorem 1):
// 1/2 + sqrt(sum_kl)/2 - sum_kl/8 below 4, else 1. NaN and negative input give 1 (fail closed).
double AucBound(double sum_kl);

// Smallest mean of both error rates any adversary can reach: max(0, 1/2 - sqrt(sum_kl)/4), from Pinsker's inequality
// (appendix A.3, equation 4). NaN and negative input give 0 (fail closed).
double DetectionErrorBound(double sum_kl);

// AUC of the likelihood ratio between two Gaussian classes of the same covariance whose symmetrised KL divergence is
// sum_kl: Phi(sqrt(sum_kl / 2)), the exact worst case where d'^2 = sum_kl. The divergences of independent releases of
// an example add, so with their sum it is the AUC of an adversary that accumulates them. NaN and negative input
// give 1.
double GaussianAucBound(double sum_kl);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_
