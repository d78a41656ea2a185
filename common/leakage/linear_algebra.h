// The algebra of the attacks: sums over rows in double precision, in which no float product overflows or underflows and
// no long sum loses digits; products of matrices in single precision; systems of equations; means that fade.
#ifndef SPLITVEIL_COMMON_LEAKAGE_LINEAR_ALGEBRA_H_
#define SPLITVEIL_COMMON_LEAKAGE_LINEAR_ALGEBRA_H_

#include <algorithm>
#include <cereal/access.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Rows of floats or doubles in memory, `stride` numbers from one to the next; 0: the same row again.
template <typename T>
struct RowsAt {
  const T* first = nullptr;
  size_t stride = 0;
};

// Sums over kRows pairs of rows at once, whose additions need not wait for one another; a pair's sum has the same bits
// whatever kRows. `term` of the components of a and b as vectors of doubles or doubles.
template <size_t kRows, typename T = float, typename Term>
inline __attribute__((always_inline)) void SumsOverPairs(RowsAt<T> a, RowsAt<T> b, size_t cols, const Term& term,
                                                         double* sums) {
  constexpr size_t kLanes = 8;  // Partial sums in a vector, which GCC and Clang map to whatever the processor has.
  using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
  using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
  using Elements = std::conditional_t<std::is_same_v<T, float>, Floats, Doubles>;
  Doubles partial[kRows] = {};
  size_t i = 0;
  for (; i + kLanes <= cols; i += kLanes) {
    for (size_t row = 0; row < kRows; ++row) {
      Elements left;
      Elements right;
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

// ||a||^2. Not finite exactly if a component is not.
inline double SquaredNorm(absl::Span<const float> a) { return InnerProduct(a, a); }

// The nearest finite float, so that no finite gradient gives an infinite score. What is not finite stays so: it must
// reach the code that refuses it.
inline float Saturated(double score) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(score) ? std::clamp(score, -kLargest, kLargest) : score);
}

class ConstMatrixView;
class Matrix;
// Sum of weights[j] times row j. weights: [rows]. [cols]
std::vector<double> WeightedRowSum(ConstMatrixView rows, absl::Span<const double> weights);

// Mean row; zero for no rows. [cols]
std::vector<double> MeanRow(ConstMatrixView rows);

// <row, direction> of each row; `direction` [cols].
std::vector<double> InnerProducts(ConstMatrixView rows, absl::Span<const float> direction);

// <row, other's row> of each row; both of one shape.
std::vector<double> PairwiseProducts(ConstMatrixView rows, ConstMatrixView others);

// ||row||^2 of each row.
std::vector<double> SquaredNorms(ConstMatrixView rows);

// ||row - other's row||^2 of each row; both of one shape.
std::vector<double> SquaredDistances(ConstMatrixView rows, ConstMatrixView others);

// ||row - point||^2 of each row; `point` [cols].
std::vector<double> SquaredDistancesTo(ConstMatrixView rows, absl::Span<const float> point);

// Products of matrices in single precision: the work of an attack that learns from every batch.

// a b. `a` [rows, inner], `b` [inner, cols]. The same bits on every machine.
Matrix Product(ConstMatrixView a, ConstMatrixView b);

// a' b. `a` [inner, rows], `b` [inner, cols].
Matrix TransposedProduct(ConstMatrixView a, ConstMatrixView b);

// Thread-safe.
class PositiveSystem {
 public:
  PositiveSystem() = default;
  // `matrix` [size, size] by rows, of which the lower triangle is read. Pivots below `least_pivot` > 0, which rounding
  // may leave of a matrix that is nearly singular, count as that.
  PositiveSystem(std::vector<double> matrix, int64_t size, double least_pivot);
  // Of the matrix of the rows' inner products, with `ridge` on its diagonal. None if a pivot is below `least_pivot` >
  // 0: found at the first row that depends on those before it, the rest is not looked at.
  static std::optional<PositiveSystem> OfProducts(ConstMatrixView rows, double ridge, double least_pivot);

  // x with matrix x = right, in place: [size, columns] by rows.
  void Solve(std::vector<double>& right, int64_t columns) const;
  // The smallest pivot, at least `least_pivot`: near 0 if two rows of the matrix are nearly the same.
  double SmallestPivot() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(factor_, size_);
  }

  std::vector<double> factor_;  // Cholesky's, lower triangle by rows.
  int64_t size_ = 0;
};

// What the batches before weigh against the latest: some ten of them count.
inline constexpr double kFadingMemory = 0.9;

// mean = memory mean + (1 - memory) share sum, component by component; of one shape.
inline void Fade(const Matrix& sum, double share, Matrix& mean) {
  for (int64_t i = 0; i < mean.size(); ++i) {
    mean.data()[i] = static_cast<float>(kFadingMemory * mean.data()[i] + (1 - kFadingMemory) * share * sum.data()[i]);
  }
}
inline void Fade(double latest, double& mean) { mean = kFadingMemory * mean + (1 - kFadingMemory) * latest; }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LINEAR_ALGEBRA_H_
