// The cut activations brought to one scale, and a model that is linear in them: where a positive's gradient points.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_
#define SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/positive_system.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Of a stream of batches: a constant and the centred activations, of a length of about 1 together, with their second
// moments over the batches so far, which fade as the bottom model learns. Activations wider than kLargestWidth are
// projected on as many fixed lines. Not thread-safe.
class ActivationFeatures {
 public:
  static constexpr int64_t kLargestWidth = 128;

  // Features of the next batch's `activations` [rows, cut_width], [rows, width()]; empty where they are not finite, and
  // then nothing is remembered. Restarts if they are of a different width than those before.
  Matrix Take(ConstMatrixView activations);
  int64_t width() const { return second_moments_.rows(); }

  // Ridge regression on the features of all batches so far: what maps features to targets whose fading mean products
  // with them are `moments` [width, targets], alike. [width, targets]
  Matrix Regress(const Matrix& moments) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(cut_width_, lines_, centre_, scale_, second_moments_, system_);
  }

  void Start(int64_t cut_width);

  int64_t cut_width_ = -1;
  Matrix lines_;  // [cut_width, kLargestWidth] where the activations are wider, else empty.
  std::vector<double> centre_;
  double scale_ = 0;
  Matrix second_moments_;
  PositiveSystem system_;  // Of the second moments and the ridge.
};

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

#endif  // SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_
