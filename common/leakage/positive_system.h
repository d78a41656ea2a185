// Systems of linear equations whose matrix is symmetric and positive definite.
#ifndef SPLITVEIL_COMMON_LEAKAGE_POSITIVE_SYSTEM_H_
#define SPLITVEIL_COMMON_LEAKAGE_POSITIVE_SYSTEM_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

namespace splitveil {

// Thread-safe.
class PositiveSystem {
 public:
  PositiveSystem() = default;
  // `matrix` [size, size] by rows, of which the lower triangle is read. Pivots below `least_pivot` > 0, which rounding
  // may leave of a matrix that is nearly singular, count as that.
  PositiveSystem(std::vector<double> matrix, int64_t size, double least_pivot);

  // x with matrix x = right, in place: [size, columns] by rows.
  void Solve(std::vector<double>& right, int64_t columns) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(factor_, size_);
  }

  std::vector<double> factor_;  // Cholesky's, lower triangle by rows.
  int64_t size_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_POSITIVE_SYSTEM_H_
