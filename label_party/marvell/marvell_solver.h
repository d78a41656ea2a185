// The optimum of Marvell and its inverse (Li et al., ICLR 2022, Theorem 2).
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_SOLVER_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_SOLVER_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace splitveil {

// Class moments of a batch and the power to spend. All finite and >= 0.
struct MarvellProblem {
  int64_t d = 1;     // Components of a gradient, >= 1.
  double u = 0;      // Variance of a component within class 0 (negative).
  double v = 0;      // Variance of a component within class 1 (positive).
  double g = 0;      // ||dg||^2, squared distance of the class means.
  double p = 0;      // Share of positives, in [0, 1].
  double power = 0;  // P >= p tr(Cov eta_pos) + (1-p) tr(Cov eta_neg).
};

// lambda1: variance of the noise along dg; lambda2 <= lambda1: on each direction across it.
struct MarvellSolution {
  double lambda1_neg = 0, lambda2_neg = 0;
  double lambda1_pos = 0, lambda2_pos = 0;
  double sum_kl = 0;  // Of the perturbed classes, as SumKl(GaussianClasses) gives it; may be +inf.
};

// The global optimum, for any finite input: sum_kl is the least possible and all power is spent, both to within
// rounding (1e-15 of the power). No noise is negative. A class of share zero costs nothing, and its noise is still
// finite. About 2 microseconds, no allocation. Errors: InvalidArgument for input out of the ranges above. Thread-safe.
//
// Why it is global: in the logarithms of a_neg, a_pos (lambda1 + variance) and b_neg, b_pos (lambda2 + variance) the
// problem is a geometric programme, hence convex. Noise across dg only ever lifts the class of smaller variance
// (appendix A.4), which leaves one such variable, x; minimised over the other two, a convex programme is convex in what
// is left, so there is one minimum over x. For given x the pair along dg has a closed form: see RatioAlong in the
// source.
absl::StatusOr<MarvellSolution> SolveMarvell(const MarvellProblem& problem);

struct MarvellPower {
  double power = 0;
  MarvellSolution solution;
};

// The least power whose optimal sum_kl is at most `target_sum_kl`; `problem.power` is ignored. The solution's sum_kl is
// at most the target and, unless no power at all is needed, at least (1 - 1e-9) times it. More power never raises
// sum_kl and enough of it reaches every target, hence the only failures: InvalidArgument for a problem out of range or
// a target that is not positive and finite; FailedPrecondition if the power would exceed a double, or the target
// lies below what rounding lets the noise reach (about 1e-31 d). Some ten solves. Thread-safe.
absl::StatusOr<MarvellPower> LeastMarvellPower(const MarvellProblem& problem, double target_sum_kl);

// The sum_kl that keeps every adversary's detection error (mean of both error rates) at least `detection_error` = L,
// (2 - 4 L)^2: by Pinsker's inequality it is at least 1/2 - sqrt(sum_kl)/4 (Li et al., appendix A.3, equation 4).
// Errors: InvalidArgument unless 0 <= L < 0.5.
absl::StatusOr<double> SumKlForDetectionError(double detection_error);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_SOLVER_H_
