// Noise that is alike in every direction: how much of it a given protection takes, as marvell_power.h says for
// Marvell's, and the plan of it.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_NOISE_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_NOISE_H_

#include <string>

#include "label_party/noise/batch_facts.h"
#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_plan.h"

namespace splitveil {

// The least variance per component of N(0, variance I) that brings the divergence of the classes of `moments` (two
// classes, d components) to at most `max_sum_kl` > 0; to 1e-9 of itself, on the side where the limit is kept. 0 where
// no noise is needed, +inf where a double cannot hold it. More noise never raises the divergence: each of its terms
// falls. Thread-safe.
double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl);

// N(0, (total_power / d) I) on every row, or of more power where `max_sum_kl` asks for it. The report's divergence is
// that of the batch's own classes, else of the run's averages, else NaN. Thread-safe.
NoisePlan PlanIsotropicNoise(const BatchFacts& batch, const std::string& method, double total_power, double max_sum_kl);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_NOISE_H_
