// A protection proves itself before it may guard a run (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/protection/protection_factory.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// A protection as the self-test sees it: from outside, so that tests can try broken ones.
struct ProtectionCandidate {
  // See GradientProtection::Perturb.
  std::function<absl::StatusOr<ProtectionReport>(const LabelFreeBatch& batch, const LabelledGradients& gradients,
                                                 const NoisePosition& position, Matrix& out)>
      perturb;
  // As Protection::TrainingTargets of two classes.
  std::function<absl::StatusOr<std::vector<float>>(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const uint8_t> labels, uint32_t epoch)>
      training_targets;
};

// `protection` must outlive the result. Its targets count as drawn: give it an object of its own.
ProtectionCandidate CandidateOf(const Protection& protection);

// What a candidate is tried on.
struct SyntheticBatch {
  static constexpr int64_t kRows = 64;
  static constexpr int64_t kCols = 16;

  Matrix directions{kRows, kCols};
  std::vector<float> probabilities = std::vector<float>(kRows);
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);
  Matrix gradients{kRows, kCols};  // (p - y) v

  LabelFreeBatch label_free() const { return {directions, probabilities}; }
  LabelledGradients labelled() const { return {gradients, labels}; }
};

// Every fourth row is positive; class means apart, spreads and norms unequal, no two rows alike.
SyntheticBatch MakeSyntheticBatch();

// Creates the configured protection under a key of its own and proves it. A few milliseconds. Call it before a run.
// Errors: see MakeProtection and ProveProtection.
absl::Status SelfTestProtection(const v1::GradientProtection& config);

// Perturbs a synthetic batch of two classes a few hundred times with `candidate` and holds the noise against what
// `config` promises for that batch: it is there, has mean zero and the promised variances along and across its line in
// both classes, is independent over rows and positions, and is the same again at the same position. Methods without
// noise: see ProveNoiseless. Every comparison is at six standard deviations, so a sound protection fails with a
// probability below 1e-6.
// Errors: Internal, our bug, naming the property that does not hold; else those of the candidate.
absl::Status ProveProtection(const v1::GradientProtection& config, const ProtectionCandidate& candidate);

// Holds `candidate` against what `config`, of a method without noise, promises:
// none: every bit as it is. label_dp: of 100,000 labels of each class the share rho is flipped, neighbours
// independently, the targets are the two that rho gives, and gradients are sent as they are, with the divergence of
// rho. gaussian_label_dp: of 100,000 labels the noise has the promised mean, variance and fourth moment in each class
// and none in common with its neighbours or, if every epoch draws, with the next epoch, and gradients are sent as they
// are, with the divergence mu^2. sparsify: the promised number of components remains, unchanged, none smaller than a
// removed one. discretize: the promised bins, each component in the nearest. Only label_dp and gaussian_label_dp change
// labels. Random figures are compared at six standard deviations: a sound method fails with a probability below 1e-7.
// Errors: see ProveProtection.
absl::Status ProveNoiseless(const v1::GradientProtection& config, const ProtectionCandidate& candidate);

// The error of a protection without `property`, which is our bug: Internal.
absl::Status Broken(const std::string& property);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_SELF_TEST_H_
