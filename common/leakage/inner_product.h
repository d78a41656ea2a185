// Sums over a row in double precision: no float product overflows or underflows there, and no long sum loses digits.
#ifndef SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
#define SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/types/span.h"

namespace splitveil {

// Rows in memory, `stride` floats from one to the next; 0: the same row again.
struct FloatRows {
  const float* first = nullptr;
  size_t stride = 0;
};

// Sums over kRows pairs of rows at once, whose additions need not wait for one another; a pair's sum has the same bits
// whatever kRows. `term` of the components of a and b as vectors of doubles or doubles.
template <size_t kRows, typename Term>
inline __attribute__((always_inline)) void SumsOverPairs(FloatRows a, FloatRows b, size_t cols, const Term& term,
                                                         double* sums) {
  constexpr size_t kLanes = 8;  // Partial sums in a vector, which GCC and Clang map to whatever the processor has.
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
  Doubles partial[kRows] = {};
  size_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    for (size_t row = 0; row < kRows; ++row) {
      Floats left;
      Floats right;
      std::memcpy(&left, a.first + row * a.stride + i, sizeof left);
      std::memcpy(&right, b.first + row * b.stride + i, sizeof right);
      const Doubles left_doubles = __builtin_convertvector(left, Doubles);
      const Doubles right_doubles = __builtin_convertvector(right, Doubles);
      term(left_doubles, right_doubles, partial[row]);
    }
  }
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t lane = 0; i + lane < cols; ++lane) {
      double sum = partial[row][lane];
      term(static_cast<double>(a.first[row * a.stride + i + lane]),
           static_cast<double>(b.first[row * b.stride + i + lane]), sum);
      partial[row][lane] = sum;
    }
    const Doubles& lanes = partial[row];
    sums[row] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
}

// Of two rows of one length.
template <typename Term>
inline double SumOverPairs(absl::Span<const float> a, absl::Span<const float> b, const Term& term) {
  double sum = 0;
  SumsOverPairs<1>({a.data()}, {b.data()}, a.size(), term, &sum);
  return sum;
}

inline constexpr auto kProduct = [](const auto& left, const auto& right, auto& sum) { sum += left * right; };
inline constexpr auto kSquaredDifference = [](const auto& left, const auto& right, auto& sum) {
  sum += (left - right) * (left - right);
};

// <a, b>. Finite for finite floats.
inline double InnerProduct(absl::Span<const float> a, absl::Span<const float> b) {
  return SumOverPairs(a, b, kProduct);
}

// ||a - b||^2.
inline double SquaredDistance(absl::Span<const float> a, absl::Span<const float> b) {
  return SumOverPairs(a, b, kSquaredDifference);
}

// ||a||^2. Not finite exactly if a component is not.
inline double SquaredNorm(absl::Span<const float> a) { return InnerProduct(a, a); }

// The nearest finite float, so that no finite gradient gives an infinite score. What is not finite stays so: it must
// reach the code that refuses it.
inline float Saturated(double score) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(score) ? std::clamp(score, -kLargest, kLargest) : score);
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_INNER_PRODUCT_H_
