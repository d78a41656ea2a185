// A protection proves itself before it may guard a run (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_

#include "absl/status/status.h"

#include "label_party/protection/protection_candidate.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// Creates the configured protection under a key of its own and proves it. A few milliseconds. Call it before a run.
// Errors: as MakeProtection and ProveProtection.
absl::Status SelfTestProtection(const v1::GradientProtection& config);

// Perturbs a synthetic batch of two classes a few hundred times with `candidate` and holds the noise against what
// `config` promises for that batch: it is there, has mean zero and the promised variances along and across its line in
// both classes, is independent over rows and positions, and is the same again at the same position. Methods without
// noise: see noiseless_self_test.h. Every comparison is at six standard deviations, so a sound protection fails with a
// probability below 1e-6.
// Errors: Internal, our bug, naming the property that does not hold; else those of the candidate.
absl::Status ProveProtection(const v1::GradientProtection& config, const ProtectionCandidate& candidate);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_
