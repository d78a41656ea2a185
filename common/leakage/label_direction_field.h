// Where the gradient of a positive points, from example to example.
#ifndef SPLITVEIL_COMMON_LEAKAGE_LABEL_DIRECTION_FIELD_H_
#define SPLITVEIL_COMMON_LEAKAGE_LABEL_DIRECTION_FIELD_H_

#include <cereal/access.hpp>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/activation_features.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Cosines of rows with a field, as sums over the directions of even and of odd number. Both [rows].
struct FieldCosines {
  std::vector<float> even, odd;

  std::vector<float> Whole() const;
};

// By the chain rule an example's gradient is (p - y) v, v = dlogit/dz: v depends on the activations z alone, as far as
// the head adds nothing to them that interacts. The field is linear in ActivationFeatures, which makes the head
// quadratic in z, and is fitted in closed form to gradients that are turned round where the label is believed negative.
// Not thread-safe.
class LabelDirectionField {
 public:
  // The coordinates of directions have turned: GradientViews.turn, or empty.
  void Turn(const Matrix& turn);

  // Cosine of each row of `across` (unit vectors or 0) with the field at its features: larger where the row points as
  // positives do. All 0 before the first Learn. [rows]
  FieldCosines Cosines(const ActivationFeatures& regression, const Matrix& features, const Matrix& across) const;

  // Takes in what is believed of each row, -1 (negative) to 1 (positive).
  void Learn(const Matrix& features, const Matrix& across, absl::Span<const float> beliefs);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(moments_);
  }

  Matrix moments_;  // Fading mean of believed directions with features, [features, directions].
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LABEL_DIRECTION_FIELD_H_
