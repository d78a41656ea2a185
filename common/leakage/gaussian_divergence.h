// Divergence of the two classes' perturbed gradients under the Gaussian model.
#ifndef SPLITVEIL_COMMON_LEAKAGE_GAUSSIAN_DIVERGENCE_H_
#define SPLITVEIL_COMMON_LEAKAGE_GAUSSIAN_DIVERGENCE_H_

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_GAUSSIAN_DIVERGENCE_H_
