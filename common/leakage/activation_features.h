// What a model of the label party's head may be linear in: the cut activations, brought to one scale.
#ifndef SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_
#define SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

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
  // then nothing is remembered. Starts anew where they are of another width than those before.
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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_ACTIVATION_FEATURES_H_
