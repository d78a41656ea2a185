// What is done to the clean gradients before the protection, if configured: clipping and a regulariser.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PREPARATION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PREPARATION_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Scales every row of `gradients` that is longer (Euclidean norm) than `max_norm` > 0 down to it (Abadi et al., "Deep
// learning with differential privacy", CCS 2016, Algorithm 1). It bounds what one example can do to the other party's
// model; it hides no label. A row that is not finite stays so.
void ClipRows(double max_norm, Matrix& gradients);

// The sample distance correlation R of rows z_i [batch, d] and numbers y_i [batch] (Szekely, Rizzo and Bakirov, Annals
// of Statistics 2007, definition 5): with the distances a_ij = ||z_i - z_j||, b_ij = |y_i - y_j|, double-centred to
// A_ij and B_ij (every row and column sums to zero),
//
//   R^2 = sum A_ij B_ij / sqrt(sum A_ij^2 sum B_ij^2),   in [0, 1].
//
// Adds to each row of `cut_gradient` the gradient of `weight` log R with respect to that row of z, times the batch:
// rows are gradients of each example's own loss, whose mean the bottom model descends (Sun et al., arXiv 2203.01451,
// equation 4). Since double-centring is a projection,
//
//   d log R / d z_i = sum over j of (B_ij / sum A B - A_ij / sum A^2) (z_i - z_j) / a_ij,
//
// pairs of equal rows left out (a subgradient). Nothing is added if R is 0, or not defined: all rows equal, or all
// numbers (one class). Does not change with the scale of y. O(batch^2 d) time (two passes over all pairs), O(batch d)
// memory. Errors: InvalidArgument if the shapes differ. Thread-safe.
absl::Status AddDistanceCorrelationGradient(double weight, ConstMatrixView z, absl::Span<const float> y,
                                            Matrix& cut_gradient);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PREPARATION_H_
