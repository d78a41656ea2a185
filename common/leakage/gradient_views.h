// Two views of a batch's gradients, of which one can teach the other: the main direction, where noise that is to hide
// the labels lies, and what lies across it.
#ifndef SPLITVEIL_COMMON_LEAKAGE_GRADIENT_VIEWS_H_
#define SPLITVEIL_COMMON_LEAKAGE_GRADIENT_VIEWS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "common/leakage/principal_direction.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Of one batch.
struct GradientViews {
  int64_t rows = 0;
  // Place of each row along the batch's own main direction, mean 0, variance 1; larger on the side of the positives as
  // the skewness of all batches so far tells it. [rows]
  std::vector<float> main;
  // What is left of each row, in coordinates of the directions in which the rows of all batches vary most across their
  // main directions; where they vary little is stretched. A unit vector, or 0 where nothing is left. [rows, directions]
  Matrix across;
  // The length of each row of `across` before it was made a unit vector, relative to the batch. [rows]
  std::vector<float> lengths;
  // A vector x of the batch before is turn x in this one's coordinates; empty for the first. [directions, directions]
  Matrix turn;

  // The batch tells nothing: its rows are equal or not finite.
  bool empty() const { return main.empty(); }
};

// Splits a stream of batches. Keeps the directions and their spread, no row. Not thread-safe.
class GradientSplitter {
 public:
  // Directions that are kept across the main one; fewer where gradients have fewer components.
  static constexpr int64_t kDirections = 16;

  // `gradients` [rows, units]; as wide as those before, else it restarts.
  GradientViews Split(ConstMatrixView gradients);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(main_, directions_, spread_, tracked_);
  }

  void Start(int64_t units);
  // Turns the directions to what `across` adds to the batches before; the turn.
  Matrix Track(ConstMatrixView across);

  PrincipalDirection main_;
  Matrix directions_;           // [units, directions], orthonormal columns.
  std::vector<double> spread_;  // Of each, decaying from batch to batch. [directions]
  bool tracked_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_GRADIENT_VIEWS_H_
