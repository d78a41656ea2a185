// A surrogate of the label party's head, learnt from what the other party sends and receives, and what it tells.
#ifndef SPLITVEIL_COMMON_LEAKAGE_SURROGATE_HEAD_H_
#define SPLITVEIL_COMMON_LEAKAGE_SURROGATE_HEAD_H_

#include <array>
#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/gradient_views.h"
#include "common/leakage/linear_algebra.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Features of a stream of batches: a constant and the centred activations, together of a length of about 1. Keeps their
// second moments over the batches so far, which fade as the bottom model learns. Activations wider than kLargestWidth
// are projected on as many fixed lines. Not thread-safe.
class ActivationFeatures {
 public:
  static constexpr int64_t kLargestWidth = 128;

  // Features of the next batch's `activations` [rows, cut_width], [rows, width()]; empty if they are not finite, and
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
  Matrix lines_;  // [cut_width, kLargestWidth] if the activations are wider, else empty.
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
// quadratic in z, and is fitted in closed form to gradients that are turned round if the label is believed negative.
// Not thread-safe.
class LabelDirectionField {
 public:
  // The coordinates of directions have turned: GradientViews.turn, or empty.
  void Turn(const Matrix& turn);

  // Cosine of each row of `across` (unit vectors or 0) with the field at its features: larger if the row points as
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

class Matrix;

// One per row; larger means "positive".
struct SurrogateScores {
  std::vector<double> log_ratios;  // Of positive against negative, under the surrogate and its model of the noise.
  // By how much the direction in which the surrogate would send a positive's gradient matches the received one better
  // than that of a negative's: squared errors, all directions alike (UnSplit: Erdogan et al., arXiv 2108.09033).
  std::vector<double> matching;
};

// Learns, batch by batch, an example's v = dlogit/dz, along which alone its label moves its gradient, and tests along
// it. As ExPLoit does (Kariyappa and Qureshi, arXiv 2112.01299) it fits soft labels and a surrogate head to the
// gradients in turn; in place of that method's gradient descent, closed forms:
//  - Soft labels come from the gradients' main direction at first. Under noise that hides the labels well, this view
//    reveals little about one example, but enough about thousands.
//  - They teach a field of label directions across the main one, by ridge regression on the activations. There noise
//    that is spent where the classes differ on average leaves the label alone: (p - y) v(z) is nearly bare, and
//    averages out over examples only because v turns with z.
//  - That field and the main view together make better soft labels, which teach a second field. No field teaches
//    itself: what it got wrong would be fixed.
// How far a view is to be believed follows from how much it agrees with others, on batches that none has learnt from
// yet. The field's directions fall into halves. Of three views with independent errors, each one's correlation with
// what they have in common follows from their correlations with each other. Views without information weigh nothing.
// The label prior enters through the orientation alone: positives are fewer.
//
// Keeps moments, no row: about width (width + 32) + 16 units numbers. Costs about as many products a row. Not
// thread-safe.
class SurrogateHead {
 public:
  // Scores the next batch by what was learnt from those before, then learns from it. `views` of its
  // gradients, of a stream that leaves no batch out, and `activations` [rows, cut_width] of the same rows. All 0 for a
  // batch without information (GradientViews::empty).
  SurrogateScores Take(const GradientViews& views, ConstMatrixView activations);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(features_, teachers_);
  }

  // A field, and fading means of products of the main view m and the halves a and b of the field's cosines.
  struct Teacher {
    LabelDirectionField field;
    double main_a = 0, main_b = 0, a_b = 0, squared = 0;  // The last: (a + b)^2.

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(field, main_a, main_b, a_b, squared);
    }
  };
  // Log ratios by `teacher` and the main view together.
  static std::vector<float> Weigh(const FieldCosines& cosines, const std::vector<float>& main, Teacher& teacher);

  ActivationFeatures features_;
  std::array<Teacher, 2> teachers_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SURROGATE_HEAD_H_
