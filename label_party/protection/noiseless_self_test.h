// Proofs of the methods that add no noise.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_NOISELESS_SELF_TEST_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_NOISELESS_SELF_TEST_H_

#include "absl/status/status.h"

#include "label_party/protection/protection_candidate.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// Holds `candidate` against what `config`, of a method without noise, promises:
// none: every bit as it is. label_dp: of 100,000 labels of each class the share rho is flipped, neighbours
// independently, the targets are the two that rho gives, and gradients leave as they are, with the divergence of rho.
// gaussian_label_dp: of 100,000 labels the noise has the promised mean, variance and fourth moment in each class and
// none in common with its neighbours or, where every epoch draws, with that of the next epoch, and gradients leave as
// they are, with the divergence mu^2. sparsify: the promised number of components is left, unchanged, none smaller than
// one that is gone. discretize: the promised bins, each component in the nearest. All but those two leave labels as
// they are. Random figures are compared at six standard deviations: a sound method fails with a probability below 1e-7.
// Errors: Internal, naming the property that does not hold; else those of the candidate.
absl::Status ProveNoiseless(const v1::GradientProtection& config, const ProtectionCandidate& candidate);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_NOISELESS_SELF_TEST_H_
