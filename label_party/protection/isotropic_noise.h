// How much isotropic noise a given protection takes: marvell_power.h for noise that is alike in every direction.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_ISOTROPIC_NOISE_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_ISOTROPIC_NOISE_H_

#include "label_party/protection/class_moments.h"

namespace splitveil {

// The least variance a component of N(0, variance I) that brings the divergence of the classes of `moments` (two
// classes, d components) to at most `max_sum_kl` > 0; to 1e-9 of itself, on the side where the limit is kept. 0 where
// no noise is needed, +inf where a double cannot hold it. More noise never raises the divergence: each of its terms
// falls. Thread-safe.
double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_ISOTROPIC_NOISE_H_
