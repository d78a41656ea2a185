// The attack on floating-point noise: which clean values can the sum have been made of?
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_CRYPTO_LOW_BITS_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_CRYPTO_LOW_BITS_H_

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

// The share of components for which a float z has float(clean + sigma z) == noised.
inline double ReachableShare(absl::Span<const float> noised, absl::Span<const float> clean, double sigma) {
  double reachable = 0;
  for (size_t k = 0; k < noised.size(); ++k) {
    const float nearest = static_cast<float>((double{noised[k]} - clean[k]) / sigma);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float z : {nearest, std::nextafter(nearest, kInfinity), std::nextafter(nearest, -kInfinity)}) {
      if (static_cast<float>(clean[k] + sigma * z) == noised[k]) {
        ++reachable;
        break;
      }
    }
  }
  return reachable / static_cast<double>(noised.size());
}

// P(positive's score > negative's) + half that of equal ones.
inline double AucOfScores(absl::Span<const double> positives, absl::Span<const double> negatives) {
  double wins = 0;
  for (const double positive : positives) {
    for (const double negative : negatives) {
      wins += positive > negative ? 1 : positive == negative ? 0.5 : 0;
    }
  }
  return wins / (static_cast<double>(positives.size()) * static_cast<double>(negatives.size()));
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_CRYPTO_LOW_BITS_H_
