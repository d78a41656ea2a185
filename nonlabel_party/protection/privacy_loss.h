// What a batch's activations reveal about a sensitive attribute: the privacy loss L_p of Yu et al., equation 3.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_LOSS_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// A loss of a batch and its derivative by the activations, [batch, d]; not divided by the batch.
struct ActivationLoss {
  double value = 0;
  Matrix gradient;
};

// An attribute of the examples of a batch: numbers below `values`, or kUnknownAttribute; [batch]. Examples with an
// unknown value do not count in a loss and get a gradient of 0.
struct BatchAttribute {
  absl::Span<const uint8_t> numbers;
  int64_t values = 0;
};

// The privacy loss of the activations that are sent, z ~ N(f(x), noise_sigma^2) for each row f(x) of `activations`
// [batch, d]:
//
//   L_p = sum_a sum_{b != a} (N_a N_b / N^2) KL(p(z|a) || p(z|b)), nats,
//
// p(z|a) is a mixture of N_a Gaussians, here replaced by one Gaussian of its mean and covariance (Hershey and Olsen,
// ICASSP 2007). An upper bound of the mutual information I(z; s) of that model, not of the real distributions: a
// heuristic. Values that no example has drop out, and one example is enough for a distribution, as the noise spreads
// it. Cost: O(values d^3 + values^2 d^2 + batch d^2). `noise_sigma` > 0. NaN if activations are not finite or a
// covariance is singular to the precision of doubles. Thread-safe, as all here.
ActivationLoss GaussianPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma);

// The same on the first `width` < d principal components of the batch's activations, if d is too large for d^3:
// there p(z|a) is a kernel density estimate, with Gaussian kernels of variance noise_sigma^2 + h_a^2, Scott's bandwidth
// h_a = N_a^(-1 / (width + 4)) times the class's mean spread along a component, and KL(a || b) is the mean of log
// p(z|a) - log p(z|b) over the examples of a. The derivative takes in that the components turn with the batch. Cost:
// O(d^3 + batch^2 width).
ActivationLoss KernelPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma,
                                 int64_t width);

// InfoCensor's bound of I(z; s) (Zheng and Li, AsiaCCS 2022) as far as the paper of the Pareto search prints it:
// sum_a (N_a / N) KL(p(z|a) || p(z)), both Gaussian as in GaussianPrivacyLoss.
ActivationLoss MarginalPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_LOSS_H_
