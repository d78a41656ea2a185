// What a self-test examines: a protection seen from outside, and the batch that it is tried on.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/noise_plan.h"
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

struct SyntheticBatch {
  static constexpr int64_t kRows = 64;
  static constexpr int64_t kCols = 16;

  Matrix gradients{kRows, kCols};
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);
};

// Every fourth row is positive; class means apart, spreads and norms unequal, no two rows alike.
inline SyntheticBatch MakeSyntheticBatch() {
  SyntheticBatch batch;
  for (int64_t j = 0; j < SyntheticBatch::kRows; ++j) {
    batch.labels[j] = j % 4 == 1 ? 1 : 0;
    const double mean = batch.labels[j] == 1 ? 0.4 : -0.1;
    const double spread = batch.labels[j] == 1 ? 0.2 : 0.1;
    for (int64_t k = 0; k < SyntheticBatch::kCols; ++k) {
      const double wave = std::sin(12.9898 * static_cast<double>(j * SyntheticBatch::kCols + k + 1));
      batch.gradients.row(j)[k] = static_cast<float>(mean * (1 + 0.05 * static_cast<double>(k)) + spread * wave);
    }
  }
  return batch;
}

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_CANDIDATE_H_
