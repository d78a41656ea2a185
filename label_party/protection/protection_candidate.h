// What is to prove itself: a protection, seen from outside.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/protection_report.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {

struct ProtectionCandidate {
  // As GradientProtection::Perturb.
  std::function<absl::StatusOr<ProtectionReport>(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, Matrix& out)>
      perturb;
  // As Protection::TrainingTargets of two classes.
  std::function<absl::StatusOr<std::vector<float>>(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const uint8_t> labels, uint32_t epoch)>
      training_targets;
};

// `protection` must outlive the result. What it is given feeds its running moments, and its targets count as drawn:
// give it an object of its own.
inline ProtectionCandidate CandidateOf(const Protection& protection) {
  return {[&protection](ConstMatrixView gradients, absl::Span<const uint8_t> labels, const NoisePosition& position,
                        Matrix& out) { return protection.gradients->Perturb(gradients, labels, position, out); },
          [&protection](absl::Span<const NoiseRow> examples, absl::Span<const uint8_t> labels, uint32_t epoch) {
            return protection.TrainingTargets(examples, std::vector<float>(labels.begin(), labels.end()), epoch);
          }};
}

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_
