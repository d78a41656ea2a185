// The inverse of marvell_solver.h: how much noise a given protection takes.
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_POWER_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_POWER_H_

#include "absl/status/statusor.h"

#include "label_party/marvell/marvell_solver.h"

namespace splitveil {

struct MarvellPower {
  double power = 0;
  MarvellSolution solution;
};

// The least power whose optimal sum_kl is at most `target_sum_kl`; `problem.power` is ignored. The solution's sum_kl is
// at most the target and, unless no power at all is needed, at least (1 - 1e-9) times it. More power never raises
// sum_kl and enough of it reaches every target, hence the only failures: InvalidArgument for a problem out of range or
// a target that is not positive and finite; FailedPrecondition where the power would exceed a double, or the target
// lies below what rounding lets the noise reach (about 1e-31 d). Some ten solves. Thread-safe.
absl::StatusOr<MarvellPower> LeastMarvellPower(const MarvellProblem& problem, double target_sum_kl);

// The sum_kl that keeps every adversary's detection error (mean of both error rates) at least `detection_error` = L,
// (2 - 4 L)^2: DetectionErrorBound inverted. Errors: InvalidArgument unless 0 <= L < 0.5.
absl::StatusOr<double> SumKlForDetectionError(double detection_error);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_POWER_H_
