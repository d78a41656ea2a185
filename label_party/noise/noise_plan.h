// The plan of what is done to the gradients of a batch, what it comes to, and the one place where noise is drawn.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/crypto/noise_grid.h"
#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/class_moments.h"

namespace splitveil {

// Variances of the noise that the rows of each class get: lambda1 along the difference of the class means, lambda2 on
// each direction across it.
struct ClassNoise {
  double lambda1_neg = 0, lambda2_neg = 0;
  double lambda1_pos = 0, lambda2_pos = 0;
};

// What is planned for one batch; the ledger's `protection` row. NaN: does not apply to the method.
struct ProtectionReport {
  // none, iso, max_norm, marvell, label_dp, sparsify, discretize; with "+fallback" if isotropic noise stands
  // in.
  std::string method;
  double u, v;   // Variance of a component within class 0 and class 1.
  double g;      // ||dg||^2, squared distance of the class means.
  double p;      // Share of positives.
  double power;  // Noise power P.
  double lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos;
  // Of the perturbed classes under the Gaussian model; label_dp: of Gaussian classes with the AUC of its flips.
  double sum_kl;
  // The divergence of all that the run may release of an example, however often: it counts once. NaN: releases add as
  // they are made.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();
  // Of this release and those of earlier epochs, if run_sum_kl is known.
  double sum_kl_so_far = std::numeric_limits<double>::quiet_NaN();
  // Whether all releases of an example are made of the same noised label.
  bool releases_repeat = false;
  // label_dp without an account: of its flips. run_sum_kl is that of the noise they are made of, as accounts and
  // checkpoints add it up; what flips and other releases allow together is ComposedAucBound. 0: no such flips.
  double flip_epsilon = 0;
};

// Only the method; every number is NaN, which the bounds read as "no bound".
ProtectionReport EmptyReport(const std::string& method);

// Reports the method's noise and the divergence that remains between the classes of `moments`, of gradients with d
// components.
ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const ClassNoise& noise);

// For methods that state no noise of their own: the moments, all else NaN.
ProtectionReport DescribeBatch(const std::string& method, const ClassMoments& moments);

// Standard deviations of the noise of row j,
//   out_j = g_j + (own z_j) g_j + (along z_j) direction + across eta_j,
// z_j ~ N(0, 1), eta_j ~ N(0, I), independent. A row has `own` or the other two.
struct RowNoise {
  double own = 0;     // On the row's own line: covariance own^2 g_j g_j'.
  double along = 0;   // On the line of `direction`: covariance along^2 direction direction'.
  double across = 0;  // On every component: covariance across^2 I.
};

// Of a whole batch. Borrowed.
struct BatchNoise {
  absl::Span<const float> direction;  // [d], used by rows with `along` only.
  absl::Span<const RowNoise> of_row;  // [batch]
  NoiseGrid grid;  // Of every row, whatever its noise: a row that is off the grid of the others would show its label.
};

// Writes all rows of `gradients` [batch, d], with their noise and rounded to the grid, into `out`, which is made
// [batch, d] if it is not. eta_j is components [j D, j D + d) of stream 0 of `position`, D = d rounded up to even; z_j
// is component 2 j of stream 1; position.stream is not read. A row's bytes so depend on its position and noise alone.
// Memory beyond `out`: a few KiB. Errors: Internal, and `out` emptied, where a component of the result is not finite.
absl::Status WritePerturbedRows(ConstMatrixView gradients, const BatchNoise& noise, const NoisePosition& position,
                                SecureGaussian& gaussian, Matrix& out);

// Rows are sent as they are.
struct NoChange {};

// Gaussian noise on each row; its size depends on the class.
struct GaussianNoise {
  std::vector<float> direction;  // Unit vector, [d], if there is noise along it.
  RowNoise of_negative, of_positive;
};

// Gaussian noise on each row's own line that brings its expected length to `longest`, which is no less than any row's;
// a row of zeros, which has no line, gets as much in all directions together.
struct EvenLengths {
  double longest = 0;
};

// The ceil(share n) of the batch's n components that are largest in magnitude stay (of equal ones the first), the
// others become zero. Over the whole batch, not row by row: a row may lose all of its components.
struct KeepLargest {
  double share = 1;
};

// Each component becomes the nearest of `bins` values, equally spaced over two standard deviations on either side of
// the mean of all. bins >= 2. If all are equal, none changes.
struct RoundToBins {
  int32_t bins = 2;
};

// What a release would be, for any labels. Its report holds as soon as it is applied; nothing of it depends on
// the draw.
struct NoisePlan {
  ProtectionReport report;
  std::variant<NoChange, GaussianNoise, EvenLengths, KeepLargest, RoundToBins> change;
  double max_sum_kl = std::numeric_limits<double>::infinity();  // The limit it was asked to keep; infinite: none.
};

// Clean gradients [batch, d] and the labels [batch], 0 or 1, that they are of. Borrowed.
struct LabelledGradients {
  ConstMatrixView gradients;
  absl::Span<const uint8_t> labels;
};

// Carries out `plan` on the batch that it was made for: writes what may be sent into `out`, which is made [batch, d] if
// it is not and may not alias. The one place where noise is drawn: at `position`, under the key of `gaussian`, which
// only GaussianNoise and EvenLengths read (it may be null for the others). The same plan at the same position gives the
// same bytes; noise of different strengths at one position is the same draw on different scales, so only one of them
// may be sent. Under a key of many runs (SecureGaussian) the noise is bound to gradients and plan: other ones get
// independent noise. Errors, `out` being empty then: InvalidArgument for an empty batch, other labels or another number
// of them than rows; Internal if a gradient or a component of the result is not finite.
absl::Status ApplyPlan(const NoisePlan& plan, const LabelledGradients& batch, const NoisePosition& position,
                       SecureGaussian* gaussian, Matrix& out);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLAN_H_
