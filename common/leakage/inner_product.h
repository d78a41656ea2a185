// Sums over a row in double precision: no float product overflows or underflows there, and no long sum loses digits.
#ifndef SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
#define SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_

#include <cstddef>

#include "absl/types/span.h"

namespace splitveil {

// <a, b>; both of the same length. Finite for finite floats. Eight partial sums, so that the compiler may use vectors.
inline double InnerProduct(absl::Span<const float> a, absl::Span<const float> b) {
  constexpr size_t kLanes = 8;
  double partial[kLanes] = {};
  const size_t size = a.size();
  const size_t whole = size - size % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      partial[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (size_t i = whole; i < size; ++i) {
    partial[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

// ||a||^2. Not finite exactly if a component is not.
inline double SquaredNorm(absl::Span<const float> a) { return InnerProduct(a, a); }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
