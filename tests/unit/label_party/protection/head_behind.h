// Top models for gradients that a test made up: protections go by what made the gradients, not by the gradients.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_HEAD_BEHIND_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_HEAD_BEHIND_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/protection/gradient_protection.h"

namespace splitveil {

// Directions and probabilities of a top model whose clean gradients (p - y) v are `gradients` of `labels`: p is the
// share of positives, or 1/4 where one class is missing.
struct HeadBehind {
  Matrix directions;
  std::vector<float> probabilities;

  HeadBehind(ConstMatrixView gradients, absl::Span<const uint8_t> labels)
      : directions(gradients), probabilities(static_cast<size_t>(gradients.rows())) {
    const auto is_positive = [&](int64_t j) { return j < static_cast<int64_t>(labels.size()) && labels[j] > 0; };
    double positives = 0;
    for (int64_t j = 0; j < gradients.rows(); ++j) {
      positives += is_positive(j);
    }
    const auto rows = static_cast<double>(gradients.rows());
    const auto share = static_cast<float>(positives == 0 || positives == rows ? 0.25 : positives / rows);
    for (int64_t j = 0; j < gradients.rows(); ++j) {
      probabilities[static_cast<size_t>(j)] = share;
      for (float& component : directions.row(j)) {
        component /= share - (is_positive(j) ? 1.0F : 0.0F);
      }
    }
  }
  LabelFreeBatch label_free() const { return {directions, probabilities}; }
};

inline ClassMoments ExpectedMomentsOf(ConstMatrixView gradients, absl::Span<const uint8_t> labels) {
  return *ExpectedMoments(HeadBehind(gradients, labels).label_free());
}

// GradientProtection::PerturbWithin of gradients that such a model made.
inline absl::StatusOr<ProtectionReport> PerturbRowsWithin(GradientProtection& protection, ConstMatrixView gradients,
                                                          absl::Span<const uint8_t> labels,
                                                          const NoisePosition& position, double max_sum_kl,
                                                          Matrix& out) {
  const HeadBehind head(gradients, labels);
  return protection.PerturbWithin(head.label_free(), {gradients, labels}, position, max_sum_kl, out);
}

inline absl::StatusOr<ProtectionReport> PerturbRows(GradientProtection& protection, ConstMatrixView gradients,
                                                    absl::Span<const uint8_t> labels, const NoisePosition& position,
                                                    Matrix& out) {
  return PerturbRowsWithin(protection, gradients, labels, position, GradientProtection::kAsConfigured, out);
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_PROTECTION_HEAD_BEHIND_H_
