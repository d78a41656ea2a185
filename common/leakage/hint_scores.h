// The hint attack: some positives of the batch are known, and the others resemble them.
#ifndef SPLITVEIL_COMMON_LEAKAGE_HINT_SCORES_H_
#define SPLITVEIL_COMMON_LEAKAGE_HINT_SCORES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class Matrix;

// Every row of a batch against each hint row: inner products, computed once for all the attacks that take them. The
// hints' gradients are those the adversary sees, perturbed as all others.
class HintScores {
 public:
  // `hint_rows`: inside the batch.
  HintScores(ConstMatrixView gradients, absl::Span<const uint32_t> hint_rows);

  // Minus the Euclidean distance to the nearest of the first `hints` hint rows, or of all where there are fewer. [rows]
  std::vector<float> Distance(int hints) const;

  // Largest inner product with one of them. [rows]
  std::vector<float> InnerProduct(int hints) const;

 private:
  template <typename Closeness>
  std::vector<float> Nearest(int hints, const Closeness& closeness) const;

  std::vector<uint32_t> hint_rows_;
  std::vector<double> squared_norms_;  // [rows]
  std::vector<double> products_;       // [rows, hint_rows]
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_HINT_SCORES_H_
