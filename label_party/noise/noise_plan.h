// What is to be done to a batch's gradients, before anything is drawn.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_

#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/protection_report.h"
#include "label_party/noise/row_noise.h"

namespace splitveil {

// Rows leave as they are.
struct NoChange {};

// Gaussian noise of each row (row_noise.h).
struct GaussianNoise {
  std::vector<float> direction;  // [d], where a row has noise along it.
  std::vector<RowNoise> of_row;  // [batch]
};

// Components smaller in magnitude than `least` become zero; of those equal to it, the first `equals` stay.
struct KeepLargest {
  float least = 0;
  int64_t equals = 0;
};

// Each component becomes the nearest of lowest, lowest + spacing, ..., `bins` of them. spacing > 0.
struct RoundToBins {
  double lowest = 0, spacing = 0;
  int32_t bins = 0;
};

// What a release would be. Its report holds as soon as it is applied; nothing of it depends on the draw.
struct NoisePlan {
  ProtectionReport report;
  std::variant<NoChange, GaussianNoise, KeepLargest, RoundToBins> change;
  double max_sum_kl = std::numeric_limits<double>::infinity();  // The limit it was asked to keep; infinite: none.
};

// Carries out `plan` on `gradients` [batch, d], the ones that it was made for: writes what may leave into `out`, which
// is made [batch, d] if it is not and may not alias. The one place where noise is drawn: at `position`, under the key
// of `gaussian`, which only GaussianNoise reads (it may be null for the others). The same plan at the same position
// gives the same bytes; noise of different strengths at one position is the same draw on different scales, so only one
// of them may leave. Under a key of many runs (SecureGaussian) the noise is bound to gradients and plan: other ones get
// independent noise. Errors: Internal where a component of the result is not finite; `out` is then empty.
absl::Status ApplyPlan(const NoisePlan& plan, ConstMatrixView gradients, const NoisePosition& position,
                       SecureGaussian* gaussian, Matrix& out);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_
