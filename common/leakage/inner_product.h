// Sums over a row in double precision: no float product overflows or underflows there, and no long sum loses digits.
#ifndef SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
#define SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_

#include <cstddef>
#include <cstring>

#include "absl/types/span.h"

namespace splitveil {

// Eight partial sums in a vector, which GCC and Clang map to whatever the processor has; `term` of the components of a
// and b, both of the same length, as vectors of doubles or doubles.
template <typename Term>
inline double SumOverPairs(absl::Span<const float> a, absl::Span<const float> b, const Term& term) {
  constexpr size_t kLanes = 8;
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
  Doubles partial = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    Floats left;
    Floats right;
    std::memcpy(&left, a.data() + i, sizeof left);
    std::memcpy(&right, b.data() + i, sizeof right);
    const Doubles left_doubles = __builtin_convertvector(left, Doubles);
    const Doubles right_doubles = __builtin_convertvector(right, Doubles);
    term(left_doubles, right_doubles, partial);
  }
  for (size_t lane = 0; i < a.size(); ++i, ++lane) {
    double sum = partial[lane];
    term(static_cast<double>(a[i]), static_cast<double>(b[i]), sum);
    partial[lane] = sum;
  }
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

// <a, b>. Finite for finite floats.
inline double InnerProduct(absl::Span<const float> a, absl::Span<const float> b) {
  return SumOverPairs(a, b, [](const auto& left, const auto& right, auto& sum) { sum += left * right; });
}

// ||a - b||^2.
inline double SquaredDistance(absl::Span<const float> a, absl::Span<const float> b) {
  return SumOverPairs(a, b,
                      [](const auto& left, const auto& right, auto& sum) { sum += (left - right) * (left - right); });
}

// ||a||^2. Not finite exactly if a component is not.
inline double SquaredNorm(absl::Span<const float> a) { return InnerProduct(a, a); }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
