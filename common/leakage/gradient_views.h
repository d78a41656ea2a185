// Two views of a batch's gradients, of which one can teach the other: the main direction, where noise that is to hide
// the labels lies, and what lies across it.
#ifndef SPLITVEIL_COMMON_LEAKAGE_GRADIENT_VIEWS_H_
#define SPLITVEIL_COMMON_LEAKAGE_GRADIENT_VIEWS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// First principal direction of each batch: gradients of the two classes differ along one line, and noise that is to
// hide the difference well lies along it too. Nothing but the rows is needed:
//  - The line turns slowly as the model learns. It is found by power iteration from the batch before, and what that
//    batch found counts `memory` times as much as what this one adds, which averages noise that has no line of its
//    own.
//  - What is remembered of the rows from earlier epochs, under noise that was independent of this one's, leads to the
//    line as labels would.
//  - Positives are fewer, so their side has the longer tail: the third moment says which side that is. In one batch of
//    noisy gradients it is a weak hint; the direction keeps its orientation from batch to batch and the third moments
//    of all of them vote.
// Not thread-safe.
class PrincipalDirection {
 public:
  // How many batches' worth the direction of the batch before counts for: against noise that has no line of its own,
  // and for noise whose line is that of the batch.
  static constexpr double kLongMemory = 10;
  static constexpr double kNoMemory = 0;
  explicit PrincipalDirection(double memory = kLongMemory) : memory_(memory) {}

  // Takes in the next batch: the centred rows' projections, oriented as those of the batch before. Times orientation(),
  // larger means "positive". All 0 if the rows are equal or not finite; nothing is remembered of such a batch.
  // [rows]
  // `evidence`: what is known of each row from elsewhere, larger on the side that the projections of earlier batches
  // had positive, of standard deviation 1 or all 0; or empty. The line then leans towards if it points.
  std::vector<double> Project(ConstMatrixView rows, absl::Span<const float> evidence = {});

  // 1 or -1, by the votes so far. It may change: what is summed over batches is to be summed without it.
  double orientation() const { return votes_ < 0 ? -1 : 1; }

  // Unit vector, oriented as the projections; empty before the first batch that has one. [cols]
  absl::Span<const float> direction() const { return direction_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(memory_, direction_, votes_);
  }

  double memory_;
  std::vector<float> direction_;
  double votes_ = 0;
};

// Of one batch.
struct GradientViews {
  int64_t rows = 0;
  // Place of each row along the batch's own main direction, mean 0, variance 1; larger on the side of the positives,
  // by the skewness of all batches so far. [rows]
  std::vector<float> main;
  // The rest of each row, across the main direction: in coordinates of the directions in which the rows of all batches
  // vary most there, weak ones stretched. A unit vector, or 0 if nothing remains. [rows, directions]
  Matrix across;
  // The length of each row of `across` before it was made a unit vector, relative to the batch. [rows]
  std::vector<float> lengths;
  // A vector x of the batch before is turn x in this one's coordinates; empty for the first. [directions, directions]
  Matrix turn;

  // Whether the batch has no information: its rows are equal or not finite.
  bool empty() const { return main.empty(); }
};

// Splits a stream of batches. Keeps the directions and their spread, no row. Not thread-safe.
class GradientSplitter {
 public:
  // Directions that are kept across the main one; fewer if gradients have fewer components.
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
