// How much noise Marvell is configured to add, and the optimum for it.
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_STRENGTH_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_STRENGTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "label_party/marvell/marvell_solver.h"
#include "label_party/noise/class_moments.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// How much noise: a power, or the divergence that may remain.
struct MarvellStrength {
  double s = 4;                 // Of P = s ||dg||^2, where there are no sum_kls.
  std::vector<double> sum_kls;  // The largest sum_kl in epoch 0, 1, ...; the last holds for all later ones.
  std::string name;             // As configured: "s=4", "sum_kl=0.25", "detection_error=0.3", "max_run_auc_bound=0.7".
  // Noise besides, of power orthogonal_noise_ratio ||dg||^2, across dg and alike in both classes.
  double orthogonal_noise_ratio = 0;

  // The largest sum_kl in `epoch`; infinite for a power.
  double SumKlOf(uint32_t epoch) const;
};

// Errors: InvalidArgument for a strength that is missing or out of range.
absl::StatusOr<MarvellStrength> MarvellStrengthOf(const v1::GradientProtection::Marvell& config);

// The optimal noise for classes with these moments: of that strength in `epoch`, or of the least power that brings
// sum_kl to `max_sum_kl` where that is more; and the noise across dg on top, with as much along dg in both classes as
// keeps lambda2 <= lambda1. That never raises the divergence, but for rounding (the solution's sum_kl is that of the
// optimum, an upper bound). Errors: as LeastMarvellPower.
absl::StatusOr<MarvellSolution> SolveMarvellFor(const MarvellStrength& strength, uint32_t epoch, double max_sum_kl,
                                                const ClassMoments& moments);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_STRENGTH_H_
