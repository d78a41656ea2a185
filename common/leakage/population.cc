#include "common/leakage/population.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/linear_algebra.h"
#include "common/matrix/matrix.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Where a row lies, seen from the population's origin.
struct Offset {
  double along = 0;           // On the line.
  double across_squared = 0;  // Squared distance from it.
};

// Origin and direction, and where rows lie in them. Double precision throughout: the difference of two floats may
// overflow.
// Rows are projected before the origin is subtracted: the projection of the origin is a constant, computed once.
class Frame {
 public:
  explicit Frame(const Population& population)
      : population_(population), origin_along_(InnerProduct(population.origin, population.direction)) {}

  std::vector<double> Along(ConstMatrixView rows) const {
    std::vector<double> along = InnerProducts(rows, population_.direction);
    for (double& value : along) {
      value -= origin_along_;
    }
    return along;
  }

  std::vector<Offset> OffsetsOf(ConstMatrixView rows) const {
    const std::vector<double> along = Along(rows), squared = SquaredDistancesTo(rows, population_.origin);
    std::vector<Offset> offsets;
    offsets.reserve(along.size());
    for (size_t j = 0; j < along.size(); ++j) {
      // Pythagoras in place of a second pass; rounding may push the difference below 0.
      offsets.push_back({along[j], std::max(0.0, squared[j] - along[j] * along[j])});
    }
    return offsets;
  }

 private:
  const Population& population_;
  double origin_along_;
};

// A batch with one class has no distance between the classes; the caller skips it, which is no error of a run.
absl::Status CheckClasses(ConstMatrixView clean, ConstMatrixView released, absl::Span<const uint8_t> labels) {
  if (clean.rows() != released.rows() || clean.cols() != released.cols() ||
      static_cast<int64_t>(labels.size()) != clean.rows()) {
    return absl::InvalidArgumentError(absl::StrCat("population: expected as many rows and columns as released, ",
                                                   released.rows(), " x ", released.cols(), ", found ", clean.rows(),
                                                   " x ", clean.cols(), " and ", labels.size(), " labels"));
  }
  for (uint8_t label : labels) {
    if (label > 1) {
      return absl::InvalidArgumentError("population: expected labels 0 and 1, found a different one");
    }
  }
  const auto positives = std::count(labels.begin(), labels.end(), 1);
  if (positives == 0 || positives == static_cast<int64_t>(labels.size())) {
    return absl::FailedPreconditionError("population: both classes are needed");
  }
  return absl::OkStatus();
}

std::array<std::vector<double>, 2> ClassMeans(ConstMatrixView rows, absl::Span<const uint8_t> labels) {
  // Weights in place of two copies: a batch is large, and this runs in every step.
  const double positives = static_cast<double>(std::count(labels.begin(), labels.end(), 1));
  const double counts[2] = {static_cast<double>(labels.size()) - positives, positives};
  std::array<std::vector<double>, 2> means;
  for (int c : {0, 1}) {
    std::vector<double> weights(labels.size());
    for (size_t j = 0; j < labels.size(); ++j) {
      weights[j] = labels[j] == c ? 1 / counts[c] : 0;
    }
    means[c] = WeightedRowSum(rows, weights);
  }
  return means;
}

// Sets the measured classes. One row has no spread on the line; its class is given the other's, or the row would single
// itself out.
void MeasureClasses(const std::vector<Offset>& offsets, int64_t cols, absl::Span<const uint8_t> labels,
                    Population& population) {
  std::array<double, 2> counts = {};
  const std::array<Population::Class*, 2> classes = {&population.measured_negative, &population.measured_positive};
  for (size_t j = 0; j < labels.size(); ++j) {
    counts[labels[j]] += 1;
    classes[labels[j]]->mean += offsets[j].along;
    classes[labels[j]]->across += offsets[j].across_squared;
  }
  const double axes_across = static_cast<double>(std::max<int64_t>(1, cols - 1));
  for (int c : {0, 1}) {
    classes[c]->mean /= counts[c];
    classes[c]->across /= counts[c] * axes_across;
  }
  // In two passes, mean before variance: sums of squares lose all digits if the mean is far from the origin.
  for (size_t j = 0; j < labels.size(); ++j) {
    const double deviation = offsets[j].along - classes[labels[j]]->mean;
    classes[labels[j]]->along += deviation * deviation / std::max(1.0, counts[labels[j]] - 1);
  }
  for (int c : {0, 1}) {
    // With no spread of its own the likelihood would be infinite at that row, and name its label.
    if (counts[c] < 2) {
      classes[c]->along = classes[1 - c]->along;
    }
  }
}

// Sets the modelled classes: the clean variance of a component about the class mean, and the noise along and across.
void ModelClasses(ConstMatrixView clean, ConstMatrixView released, const std::vector<Offset>& released_offsets,
                  absl::Span<const uint8_t> labels, const std::array<std::vector<double>, 2>& means,
                  Population& population) {
  const std::array<Population::Class*, 2> classes = {&population.negative, &population.positive};
  std::array<double, 2> counts = {}, spread = {};
  // The noise is the difference of released and clean rows, which only the label party has.
  const std::vector<double> noise_squared = SquaredDistances(released, clean),
                            clean_along = Frame(population).Along(clean),
                            from_origin_squared = SquaredDistancesTo(clean, population.origin);
  for (int64_t j = 0; j < clean.rows(); ++j) {
    const double noise_along = released_offsets[j].along - clean_along[j];
    counts[labels[j]] += 1;
    spread[labels[j]] += from_origin_squared[j];
    classes[labels[j]]->along += noise_along * noise_along;
    classes[labels[j]]->across += std::max(0.0, noise_squared[j] - noise_along * noise_along);
  }
  const double axes = static_cast<double>(clean.cols());
  for (int c : {0, 1}) {
    // The mean square about the class's mean is that about the origin, which one pass gives for both classes, less the
    // distance of the two.
    double mean_squared = 0;
    for (int64_t k = 0; k < clean.cols(); ++k) {
      const double component = means[c][k] - population.origin[k];
      mean_squared += component * component;
    }
    const double variance = std::max(0.0, spread[c] / counts[c] - mean_squared) / axes;
    classes[c]->spread = variance;
    classes[c]->along = variance + classes[c]->along / counts[c];
    classes[c]->across = variance + classes[c]->across / (counts[c] * std::max(1.0, axes - 1));
  }
  // Unbiased noise does not move a mean, so measured and modelled classes share it.
  population.negative.mean = population.measured_negative.mean;
  population.positive.mean = population.measured_positive.mean;
}

// One class's variances as the likelihood takes them: none below what floats of the two classes' size resolve.
Population::Class Resolved(const Population::Class& own, const Population::Class& other) {
  const double distance = own.mean - other.mean;
  // A class without any spread would give infinite ratios, and infinite ones cannot be compared with each other.
  const double scale = std::max({own.along, own.across, other.along, other.across, distance * distance});
  constexpr double kResolution = 1e-12;
  const double least = scale > 0 ? scale * kResolution : 1;
  return {own.mean, std::max(own.along, least), std::max(own.across, least), own.spread};
}

}  // namespace

absl::StatusOr<Population> EstimatePopulation(ConstMatrixView clean, ConstMatrixView released,
                                              absl::Span<const uint8_t> labels, absl::Span<const float> line) {
  SPLITVEIL_RETURN_IF_ERROR(CheckClasses(clean, released, labels));
  // Clean means: the direction is what the noise hides, and an adversary that knows the distributions knows it exactly.
  // A direction fitted to the released rows would follow their noise and show a leak that is none.
  const std::array<std::vector<double>, 2> means = ClassMeans(clean, labels);
  double squared = 0, on_line = 0;
  for (int64_t k = 0; k < clean.cols(); ++k) {
    squared += (means[1][k] - means[0][k]) * (means[1][k] - means[0][k]);
    on_line += line.empty() ? 0 : (means[1][k] - means[0][k]) * line[k];
  }
  // With a line of the noise all is measured on it: the likelihood needs its axes to be those of the noise.
  const double distance = line.empty() ? std::sqrt(squared) : std::abs(on_line);
  // Without a difference there is no direction; written so that NaN fails too.
  if (!(distance > 0 && std::isfinite(distance))) {
    return absl::FailedPreconditionError("population: expected finite class means that differ");
  }
  Population population;
  population.distance = distance;
  for (int64_t k = 0; k < clean.cols(); ++k) {
    population.direction.push_back(line.empty() ? static_cast<float>((means[1][k] - means[0][k]) / distance)
                                                : std::copysign(1.0F, static_cast<float>(on_line)) * line[k]);
    population.origin.push_back(static_cast<float>(means[0][k]));
  }
  const std::vector<Offset> offsets = Frame(population).OffsetsOf(released);
  MeasureClasses(offsets, released.cols(), labels, population);
  ModelClasses(clean, released, offsets, labels, means, population);
  return population;
}

absl::StatusOr<Population> PopulationEstimator::Next(ConstMatrixView clean, ConstMatrixView released,
                                                     absl::Span<const uint8_t> labels,
                                                     const StatedNoise& stated_noise) {
  absl::StatusOr<Population> batch = EstimatePopulation(clean, released, labels, stated_noise.direction);
  if (!batch.ok()) {
    return batch;
  }
  const double distance = batch->distance;
  const double dg_squared = distance * distance;
  Population population = *batch;
  Population::Class* const modelled[2] = {&population.negative, &population.positive};
  Population::Class* const measured[2] = {&population.measured_negative, &population.measured_positive};
  const NoiseVariances* const stated[2] = {&stated_noise.negative, &stated_noise.positive};
  for (int c : {0, 1}) {
    const double spread = c == 0 ? stated_noise.spread_negative : stated_noise.spread_positive;
    modelled[c]->spread = std::isfinite(spread) ? spread : modelled[c]->spread;
    // What the noise states is exact. Only if it states nothing is its size taken from earlier batches.
    const bool states = std::isfinite(stated[c]->along) && std::isfinite(stated[c]->across);
    const Averages& earlier = averages_[c];
    // By definition of the origin and the distance, and free of this batch's draw.
    modelled[c]->mean = measured[c]->mean = c == 0 ? 0 : distance;
    modelled[c]->along = modelled[c]->spread + (states ? stated[c]->along : earlier.noise.along * dg_squared);
    modelled[c]->across = modelled[c]->spread + (states ? stated[c]->across : earlier.noise.across * dg_squared);
    measured[c]->along = earlier.measured.along * dg_squared;
    measured[c]->across = earlier.measured.across * dg_squared;
    population.modelled = population.modelled && (states || batches_ > 0);
  }
  population.measured = batches_ > 0;
  // After use: a batch must not be scored with moments that its own noise has shaped.
  Remember(*batch, dg_squared);
  return population;
}

void PopulationEstimator::Remember(const Population& batch, double dg_squared) {
  // The plain mean of the first batches, then an average that follows the training.
  constexpr double kLeastWeight = 0.05;
  const double weight = std::max(kLeastWeight, 1 / static_cast<double>(++batches_));
  // In units of ||dg||^2, so that moments of batches with gradients of different size can be averaged.
  const auto blend = [&](double value, double& average) { average += weight * (value / dg_squared - average); };
  for (int c : {0, 1}) {
    const Population::Class& modelled = c == 0 ? batch.negative : batch.positive;
    const Population::Class& measured = c == 0 ? batch.measured_negative : batch.measured_positive;
    blend(modelled.along - modelled.spread, averages_[c].noise.along);
    blend(modelled.across - modelled.spread, averages_[c].noise.across);
    blend(measured.along, averages_[c].measured.along);
    blend(measured.across, averages_[c].measured.across);
  }
}

std::vector<float> LikelihoodRatioScores(ConstMatrixView gradients, const Population& population, ClassSpread spread) {
  const bool measured = spread == ClassSpread::kMeasured;
  const Population::Class& of_negatives = measured ? population.measured_negative : population.negative;
  const Population::Class& of_positives = measured ? population.measured_positive : population.positive;
  const Population::Class negative = Resolved(of_negatives, of_positives);
  const Population::Class positive = Resolved(of_positives, of_negatives);
  const double axes_across = static_cast<double>(gradients.cols() - 1);
  // Of the normalising factors of the two Gaussians. It changes no order within a batch; sums over batches need it.
  const double constant =
      std::log(negative.along / positive.along) + axes_across * std::log(negative.across / positive.across);
  const double across_weight = axes_across > 0 ? 1 / negative.across - 1 / positive.across : 0;
  std::vector<float> scores;
  scores.reserve(gradients.rows());
  for (const Offset& offset : Frame(population).OffsetsOf(gradients)) {
    const double from_negative = offset.along - negative.mean;
    const double from_positive = offset.along - positive.mean;
    scores.push_back(Saturated(0.5 * (from_negative * from_negative / negative.along -
                                      from_positive * from_positive / positive.along +
                                      offset.across_squared * across_weight + constant)));
  }
  return scores;
}

std::vector<float> DirectionScores(ConstMatrixView gradients, const Population& population) {
  std::vector<float> scores;
  scores.reserve(gradients.rows());
  for (double along : Frame(population).Along(gradients)) {
    scores.push_back(Saturated(along));
  }
  return scores;
}

}  // namespace splitveil
