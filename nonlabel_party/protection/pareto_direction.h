// Which way a step goes between utility and privacy: trajectory-controlled Pareto search (Yu et al., equation 12).
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PARETO_DIRECTION_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PARETO_DIRECTION_H_

#include <cstddef>
#include <vector>

namespace splitveil {

// A step's objectives: the utility loss L_u first, then the privacy losses.
struct Objectives {
  std::vector<double> losses;  // l, [m], m >= 2; not negative.
  std::vector<double>
      products;  // C = G'G, [m, m] row-major: inner products of the losses' gradients by the parameters.
  std::vector<bool> at_threshold;  // [m]: a privacy loss that must not rise; false for L_u.
};

struct ParetoDirection {
  // beta, [m] in [-1, 1]: the parameters go down along G beta. All 0: the search is at its end, there is no way that
  // does not raise a loss at its threshold.
  std::vector<double> weights;
  // The losses are Pareto-stationary, and the step goes along the front toward less L_u; else toward the front.
  bool at_front = false;
};

// The least norm of a convex combination of the gradients (Desideri, "Multiple-gradient descent algorithm", C. R. Acad.
// Sci. 2012): 0 where no direction lowers all losses, which is what Pareto-stationary means. `products`: [m, m].
double LeastCombinationNorm(const std::vector<double>& products, size_t m);

// Toward the front: C beta = k l with the largest k <= 1 that the box allows, which lowers each loss in proportion to
// itself (equation 11). At the front, which is where LeastCombinationNorm is at most `stationarity` times the longest
// gradient, or C has no inverse to speak of: min ||C beta - a||^2 over the box with (C beta)_i >= 0 for each loss at
// its threshold; a, orthogonal to l, is the anchor of equation 7 for the preference r = (1, 0, ..., 0), whose inverse
// stands for its limit, (0, 1, ..., 1). The minimum is found among the stationary points of all faces of the box and of
// the constraints, 3^m 2^k of them, in closed form: m is two or three, at most 7. Thread-safe.
ParetoDirection FindParetoDirection(const Objectives& objectives, double stationarity);

// The anchor a of equation 7 for losses l.
std::vector<double> AnchorDirection(const std::vector<double>& losses);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_PARETO_DIRECTION_H_
