// Writes perturbed rows: where noise meets gradients.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_ROW_NOISE_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_ROW_NOISE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Standard deviations of the noise of row j,
//   out_j = g_j + (own z_j) g_j + (along z_j) direction + across eta_j,
// z_j ~ N(0, 1), eta_j ~ N(0, I), independent. A row has `own` or the other two.
struct RowNoise {
  double own = 0;     // On the row's own line: covariance own^2 g_j g_j'.
  double along = 0;   // On the line of `direction`: covariance along^2 direction direction'.
  double across = 0;  // On every component: covariance across^2 I.
};

// Writes all rows of `gradients` [batch, d] into `out`, which is made [batch, d] if it is not. direction: [d], used by
// rows with `along` only. noise_of_row: [batch]. eta_j is components [j D, j D + d) of stream 0 of `position`, D = d
// rounded up to even; z_j is component 2 j of stream 1; position.stream is not read. A row's bytes so depend on its
// position and noise alone. Memory beyond `out`: a few KiB. Errors: Internal, and `out` emptied, where a component of
// the result is not finite.
absl::Status WritePerturbedRows(ConstMatrixView gradients, absl::Span<const float> direction,
                                absl::Span<const RowNoise> noise_of_row, const NoisePosition& position,
                                SecureGaussian& gaussian, Matrix& out);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_ROW_NOISE_H_
