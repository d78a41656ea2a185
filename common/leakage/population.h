// What the strongest adversary of the paper's threat model knows: the class-conditional moments of the perturbed
// gradients (Li et al., ICLR 2022, section 3.2: any scoring function, chosen with knowledge of the distributions).
#ifndef SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_
#define SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;

// Two Gaussian classes of the form that Theorem 2's noise gives them: on the line of `direction` and across it.
struct Population {
  struct Class {
    double mean = 0;    // Of <g - origin, direction>.
    double along = 0;   // Variance on that line.
    double across = 0;  // Mean variance of each of the d - 1 directions across it, about the origin.
    double spread = 0;  // Variance of a component of the clean rows about their mean: u or v. Of the modelled classes.

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(mean, along, across, spread);
    }
  };
  std::vector<float> direction;  // Unit vector, [d]: difference of the clean class means, or the line of the noise.
  std::vector<float> origin;     // [d]: clean mean of the negatives.
  double distance = 0;           // Along it, from the origin to the clean mean of the positives.
  // As the paper models them, and as the bounds do: the clean spread of a class is the same in every direction (u and
  // v, section 4.2), and the noise adds to it.
  Class negative, positive;
  // As they are measured on the released rows.
  Class measured_negative, measured_positive;
  // Whether the moments of each kind are known: PopulationEstimator may lack them for a run's first batches.
  bool modelled = true, measured = true;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(direction, origin, distance, negative, positive, measured_negative, measured_positive, modelled, measured);
  }
};

// The moments of one batch: direction and origin from the clean gradients, the variances from the clean rows and their
// difference to the released ones, the measured ones from the rows as released. Scoring the same rows with these
// moments is unfair: they depend on the rows, much if a class has few of them. PopulationEstimator avoids that. `line`:
// the line of the noise, a unit vector, [d]. If given, it is the direction: the class means differ along it up to
// sampling, and noise along it is separated from noise across it. Both matrices [batch, d]. Errors: FailedPrecondition
// if a class is absent or the clean means coincide; InvalidArgument for shapes that differ.
absl::StatusOr<Population> EstimatePopulation(ConstMatrixView clean, ConstMatrixView released,
                                              absl::Span<const uint8_t> labels, absl::Span<const float> line = {});

// Variances of the noise of a class: on one line, and on each direction across it. NaN if they are not known.
struct NoiseVariances {
  double along = std::numeric_limits<double>::quiet_NaN();
  double across = std::numeric_limits<double>::quiet_NaN();

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(along, across);
  }
};

// The noise of a batch, as its protection states it.
struct StatedNoise {
  NoiseVariances negative, positive;
  absl::Span<const float> direction = {};  // Of `along`, a unit vector, [d]; empty if along and across are one.
  // The spread of each class that the noise was planned for, u and v; NaN: measured on the clean rows.
  double spread_negative = std::numeric_limits<double>::quiet_NaN();
  double spread_positive = std::numeric_limits<double>::quiet_NaN();
};

// The population of each batch of a run, with nothing in it of the noise of the batch itself: direction, means and
// spreads from its clean rows, the noise as the protection states it, or else, as all that is measured, from earlier
// batches in units of ||dg||^2. Not thread-safe.
class PopulationEstimator {
 public:
  // The moments to score `released` with. `modelled` is false before the second batch of a method that states no noise,
  // `measured` before the second batch. Errors: see EstimatePopulation; such a batch changes nothing.
  absl::StatusOr<Population> Next(ConstMatrixView clean, ConstMatrixView released, absl::Span<const uint8_t> labels,
                                  const StatedNoise& stated);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(averages_, batches_);
  }

  // Averages over earlier batches, in units of ||dg||^2.
  struct Averages {
    NoiseVariances noise{0, 0}, measured{0, 0};

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(noise, measured);
    }
  };
  void Remember(const Population& batch, double dg_squared);

  Averages averages_[2];  // Of class 0 and class 1.
  int64_t batches_ = 0;
};

// Whether the noise of the plan, or the spread measured in the batch, stands for the spread of a class.
enum class ClassSpread { kModel, kMeasured };

// log p1(g) - log p0(g) of every row: the Bayes-optimal score for such classes (Neyman-Pearson). A class without
// spread counts as having the smallest the other's resolution allows, so that every score is finite. [rows]
std::vector<float> LikelihoodRatioScores(ConstMatrixView gradients, const Population& population,
                                         ClassSpread spread = ClassSpread::kModel);

// <g - origin, direction> of every row. [rows]
std::vector<float> DirectionScores(ConstMatrixView gradients, const Population& population);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_
