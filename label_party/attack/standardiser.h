// Columns brought to mean 0 and spread 1.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_STANDARDISER_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_STANDARDISER_H_

#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {

// x -> (x - mean) / spread, column by column, with mean and standard deviation of the rows it was made from. A column
// that does not vary there, to the precision of its numbers, keeps its scale. Thread-safe.
class Standardiser {
 public:
  // Changes nothing.
  Standardiser() = default;
  // `rows` [>= 1, width].
  explicit Standardiser(ConstMatrixView rows);

  // `rows` [any, width].
  Matrix Apply(ConstMatrixView rows) const;
  // Gradients at Apply's result become those at its argument: divides by the spread, in place.
  void BackPropagate(Matrix& gradient) const;

 private:
  std::vector<float> means_;
  std::vector<float> inverse_spreads_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_STANDARDISER_H_
