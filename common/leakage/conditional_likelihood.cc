#include "common/leakage/conditional_likelihood.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "common/leakage/bounds.h"
#include "common/leakage/linear_algebra.h"

namespace splitveil {
namespace {

// 0 / 0 is 0: in a direction in which no label moves the row, no noise is needed.
double Ratio(double x, double y) { return x == 0 ? 0 : x / y; }

// Twice the symmetrised divergence of two Gaussians of equal mean with these variances, in one direction.
double Unlikeness(double one, double other) { return one == other ? 0 : one / other + other / one - 2; }

// As a share of the largest squared row: a smaller variance is none that floats resolve.
constexpr double kResolution = 1e-10;

// All that the densities need of a row x, so that rows are read once.
struct RowProducts {
  double x_squared = 0, x_v = 0, v_squared = 0;
  double x_line = 0, v_line = 0;
};

// <row, line of the noise> of each row; 0 of noise that has none, being alike in all directions.
std::vector<double> OnLine(ConstMatrixView rows, const ReleasingHead& head) {
  return head.noise_direction.empty() ? std::vector<double>(static_cast<size_t>(rows.rows()))
                                      : InnerProducts(rows, head.noise_direction);
}

// log N(x; coefficient v, noise) up to the constant that both labels share.
// Expanded about the row, so that the density of either label costs no further pass over the components.
double LogDensity(const RowProducts& row, double coefficient, const NoiseVariances& noise, double cols) {
  const double along = row.x_line - coefficient * row.v_line;
  const double squared = row.x_squared - 2 * coefficient * row.x_v + coefficient * coefficient * row.v_squared;
  const double across = std::max(0.0, squared - along * along);
  return -0.5 * (along * along / noise.along + std::log(noise.along) + across / noise.across +
                 (cols - 1) * std::log(noise.across));
}

// Of a probability that floats have rounded: 0 and 1 would give infinite evidence.
double LogOdds(double probability) {
  constexpr double kLeast = 1e-30, kMost = 1 - 1e-16;
  const double inside = std::clamp(probability, kLeast, kMost);
  return std::log(inside / (1 - inside));
}

// max_norm's law of a row x = a v + rest. The rest is rounding, or noise if the clean gradient is zero.
class MaxNormRow {
 public:
  MaxNormRow(const RowProducts& row, double longest, double cols, double least_variance)
      : row_(row), longest_(longest), cols_(cols), off_line_(OffLine(row)) {
    // Rounding moves the row along its line as much as in any other direction.
    least_ = std::max(least_variance, cols > 1 ? off_line_ / (cols - 1) : 0) / row.v_squared;
  }

  // max_norm fills each row up to the longest one: the label moves the spread of the noise as well as its place.
  double LogRatio(double if_negative, double if_positive) const {
    // Noise in all directions against noise on one line. In one dimension there is no other, and the law below is both.
    if (cols_ > 1 && if_negative * if_positive == 0) {
      const bool is_zero = off_line_ > kOffLine * row_.x_squared;
      return is_zero == (if_positive == 0) ? kCertain : -kCertain;
    }
    return LogDensity(if_positive) - LogDensity(if_negative);
  }

 private:
  static constexpr double kOffLine = 1e-4;  // Share of a row's square; bfloat16 rounding makes about 1e-6.
  static constexpr double kCertain = 1000;

  static double OffLine(const RowProducts& row) {
    return std::max(0.0, row.x_squared - row.x_v * row.x_v / row.v_squared);
  }

  double LogDensity(double coefficient) const {
    const double variance = std::max(least_, longest_ * longest_ / row_.v_squared - coefficient * coefficient);
    const double distance = row_.x_v / row_.v_squared - coefficient;
    return -0.5 * (distance * distance / variance + std::log(variance));
  }

  const RowProducts& row_;
  const double longest_;
  const double cols_;
  const double off_line_;  // Square of the rest.
  double least_;           // Variance of a.
};

NoiseVariances AtLeast(double least, const NoiseVariances& noise) {
  return {std::max(noise.along, least), std::max(noise.across, least)};
}

double Margin(const ReleasingHead& head, size_t row, double coefficient, double v_norm) {
  return CoefficientMargin(head.rounding, coefficient, head.probabilities[row], v_norm, head.label_directions.cols());
}

// What rounding leaves open of a log ratio: all from `low` to `high`.
struct Range {
  double low = 0, high = 0;
};

// A row that tells nothing must not look like evidence for either label: one that was rounded away, or one whose place
// was clipped.
double AgainstLabel(const Range& range, uint8_t label) {
  return range.low <= 0 && range.high >= 0 ? 0 : label != 0 ? range.low : range.high;
}

std::vector<Range> OfPlaces(const ReleasingHead& head) {
  std::vector<Range> ranges(head.places.size());
  for (size_t j = 0; j < ranges.size(); ++j) {
    const double squared = static_cast<double>(head.separations[j]) * head.separations[j];
    if (head.exact[j] != 0 && std::isfinite(head.places[j])) {
      const double place = head.places[j] - 0.5, margin = head.margins.empty() ? 0 : head.margins[j];
      ranges[j] = {squared * (place - margin), squared * (place + margin)};
    }
  }
  return ranges;
}

// Only against a negative's law: the claim check needs a variable whose law under one label is known exactly.
std::vector<LabelResidual> OfGradientNoise(ConstMatrixView released, const ReleasingHead& head) {
  const std::vector<double> x_squared = SquaredNorms(released), v_squared = SquaredNorms(head.label_directions);
  const std::vector<double> x_v = PairwiseProducts(released, head.label_directions);
  const std::vector<double> x_line = OnLine(released, head);
  const std::vector<double> v_line = OnLine(head.label_directions, head);
  const double largest = x_squared.empty() ? 0 : *std::max_element(x_squared.begin(), x_squared.end());
  const double along = std::max(kResolution * largest, head.noise_negative.along);
  const double across = std::max(kResolution * largest, head.noise_negative.across);
  std::vector<LabelResidual> residuals(x_squared.size());
  for (size_t j = 0; j < residuals.size() && largest > 0; ++j) {
    if (v_squared[j] == 0) {
      continue;
    }
    // S^-1 splits into the part on the line of the noise and the rest.
    const double v_across = std::max(0.0, v_squared[j] - v_line[j] * v_line[j]);
    const double v_norm = std::sqrt(v_squared[j]);
    const double if_negative = CleanCoefficient(head.probabilities[j], 0, v_norm, head.clip_norm);
    const double if_positive = CleanCoefficient(head.probabilities[j], 1, v_norm, head.clip_norm);
    // <S^-1 v, x - if_negative v>, against its standard deviation sqrt(<v, S^-1 v>). A positive lies towards -v.
    const double on_line = x_line[j] - if_negative * v_line[j];
    const double on_v = x_v[j] - if_negative * v_squared[j];
    const double deviation = std::sqrt(v_line[j] * v_line[j] / along + v_across / across);
    const double value = -(on_line * v_line[j] / along + (on_v - on_line * v_line[j]) / across) / deviation;
    const double margin = Margin(head, j, std::sqrt(x_squared[j]) / v_norm, v_norm) * deviation;
    residuals[j] = {value - margin, value + margin, (if_negative - if_positive) * deviation};
  }
  return residuals;
}

// Two labels that are closer than the largest distance are proportionally harder to tell apart under the same noise.
std::vector<LabelResidual> ResidualsOfPlaces(const ReleasingHead& head, double mu) {
  std::vector<LabelResidual> residuals(head.places.size());
  for (size_t j = 0; j < residuals.size(); ++j) {
    if (head.exact[j] != 0 && std::isfinite(head.places[j])) {
      const double shift = mu * head.separations[j];
      const double margin = head.margins.empty() ? 0 : head.margins[j];
      residuals[j] = {shift * (head.places[j] - margin), shift * (head.places[j] + margin), shift};
    }
  }
  return residuals;
}

// Of a row in which two labels are still told apart: what is left of others would be p, by which features rank labels.
bool KeepsLabel(const ReleasingHead& head, size_t row, double v_norm) {
  constexpr double kMost = 0.25;
  return v_norm > 0 && Margin(head, row, 1, v_norm) < kMost;
}

// Log ratios of the rows of two classes.
class LogRatioReader {
 public:
  LogRatioReader(ConstMatrixView released, const ReleasingHead& head)
      : head_(head),
        cols_(static_cast<double>(released.cols())),
        x_squared_(SquaredNorms(released)),
        v_squared_(SquaredNorms(head.label_directions)),
        x_v_(PairwiseProducts(released, head.label_directions)),
        largest_(x_squared_.empty() ? 0 : *std::max_element(x_squared_.begin(), x_squared_.end())),
        // No noise is NaN, which compares false.
        stated_(head.noise_negative.along >= 0 && head.noise_positive.along >= 0 && largest_ > 0),
        negative_(AtLeast(kResolution * largest_, head.noise_negative)),
        positive_(AtLeast(kResolution * largest_, head.noise_positive)) {
    if (stated_) {
      x_line_ = OnLine(released, head);
      v_line_ = OnLine(head.label_directions, head);
    }
  }

  std::vector<Range> Read() const {
    std::vector<Range> ranges(x_squared_.size());
    for (size_t j = 0; j < ranges.size(); ++j) {
      // If v is 0 the label moves nothing, so the row does not depend on it.
      if (v_squared_[j] > 0) {
        // Noise across v is rounded, too, and what that adds may lie along v.
        const double margin = Margin(head_, j, std::sqrt(x_squared_[j] / v_squared_[j]), std::sqrt(v_squared_[j]));
        // A positive's label draws the row along -v.
        const double one = LogRatio(j, margin), other = LogRatio(j, -margin);
        ranges[j] = {std::min(one, other), std::max(one, other)};
      }
    }
    return ranges;
  }

 private:
  // If the row were moved by so many v.
  double LogRatio(size_t j, double moved) const {
    RowProducts row;
    row.v_squared = v_squared_[j];
    row.x_squared = x_squared_[j] + moved * (2 * x_v_[j] + moved * row.v_squared);
    row.x_v = x_v_[j] + moved * row.v_squared;
    const double v_norm = std::sqrt(row.v_squared);
    const double if_negative = CleanCoefficient(head_.probabilities[j], 0, v_norm, head_.clip_norm);
    const double if_positive = CleanCoefficient(head_.probabilities[j], 1, v_norm, head_.clip_norm);
    if (stated_) {
      row.v_line = v_line_[j];
      row.x_line = x_line_[j] + moved * row.v_line;
      // The noise is stated: the log ratio itself.
      return LogDensity(row, if_positive, positive_, cols_) - LogDensity(row, if_negative, negative_, cols_);
    }
    if (head_.longest > 0) {
      // Noise along each row that brings it to the longest of the batch.
      return MaxNormRow(row, head_.longest, cols_, kResolution * largest_).LogRatio(if_negative, if_positive);
    }
    if (head_.releases_posterior) {
      // The row is (p - posterior) v, so <x, v> / |v|^2 gives the posterior.
      return LogOdds(head_.probabilities[j] - row.x_v / row.v_squared) - LogOdds(head_.probabilities[j]);
    }
    // No noise on the row: its place between what the two labels would send.
    const double place = (if_negative - row.x_v / row.v_squared) / (if_negative - if_positive) - 0.5;
    // Not the place itself of a flipped label: rounding moves it by an amount that p decides.
    return !head_.has_flipped_label ? place : !KeepsLabel(head_, j, v_norm) ? 0 : place > 0 ? 0.5 : -0.5;
  }

  const ReleasingHead& head_;
  const double cols_;
  const std::vector<double> x_squared_, v_squared_, x_v_;
  const double largest_;  // Squared norm of a row.
  const bool stated_;
  const NoiseVariances negative_, positive_;
  std::vector<double> x_line_, v_line_;
};

// Takes back what the head did to the noised label; the noise on it alone is then left, with a known law.
std::vector<LabelResidual> OfLabelNoise(ConstMatrixView released, const ReleasingHead& head, double mu) {
  const std::vector<Range> ratios = LogRatioReader(released, head).Read();
  const auto residual_at = [&](double ratio) {
    // The noised label less 1/2, by itself or times mu^2.
    return head.releases_posterior ? ratio / mu + mu / 2 : mu * (ratio + 0.5);
  };
  const std::vector<double> v_squared = SquaredNorms(head.label_directions);
  std::vector<LabelResidual> residuals(ratios.size());
  for (size_t j = 0; j < residuals.size(); ++j) {
    const double probability = head.probabilities[j];
    // If p is next to 0 or 1, the posterior that was released is lost to rounding.
    const bool is_lost =
        head.releases_posterior && !(probability >= kLeastProbability && probability <= 1 - kLeastProbability);
    if (!is_lost && v_squared[j] > 0) {
      residuals[j] = {residual_at(ratios[j].low), residual_at(ratios[j].high), mu};
    }
  }
  return residuals;
}

}  // namespace

Rounding RoundingOf(v1::DataType wire) {
  constexpr double kLeastNormal = 0x1p-126;  // Of a float32, and of a bfloat16.
  switch (wire) {
    case v1::FLOAT16:
      return {0x1p-11, 0x1p-25};
    case v1::BFLOAT16:
      return {0x1p-9, kLeastNormal};
    default:
      return {0x1p-24, kLeastNormal};
  }
}

// The row is off by `relative` of its norm, |coefficient| v_norm, and `absolute` in each column; of that, at most its
// norm lies along v (Cauchy and Schwarz).
double CoefficientMargin(const Rounding& rounding, double coefficient, double probability, double v_norm,
                         int64_t cols) {
  constexpr double kFloat32 = 0x1p-22;  // Of a few operations.
  constexpr double kMost = 1e6;         // Nothing is left of the coefficient; finite, so that sums are.
  const double size = std::abs(coefficient);
  return std::min(kMost, rounding.relative * size + rounding.absolute * std::sqrt(static_cast<double>(cols)) / v_norm +
                             kFloat32 * (std::abs(probability) + size));
}

double CleanCoefficient(double probability, int label, double v_norm, double clip_norm) {
  const double coefficient = probability - label;
  const double norm = std::abs(coefficient) * v_norm;
  return clip_norm > 0 && norm > clip_norm ? coefficient * clip_norm / norm : coefficient;
}

// Each case for which the formula does not hold returns 1, no promise, rather than a number that looks like one.
double ConditionalAucBound(const ReleasingHead& head) {
  const NoiseVariances& negative = head.noise_negative;
  const NoiseVariances& positive = head.noise_positive;
  const int64_t rows = head.label_directions.rows(), cols = head.label_directions.cols();
  const bool stated = std::min({negative.along, negative.across, positive.along, positive.across}) >= 0 &&
                      !std::isnan(negative.along + negative.across + positive.along + positive.across);
  if (!stated || rows == 0 || rows != static_cast<int64_t>(head.probabilities.size()) || head.releases_repeat ||
      head.releases_posterior || !head.places.empty()) {
    return 1;
  }
  // Isotropic noise has no line of its own.
  const bool isotropic = negative.along == negative.across && positive.along == positive.across;
  const double line_norm = isotropic ? 0 : std::sqrt(SquaredNorm(head.noise_direction));
  if (!isotropic && !(line_norm > 0)) {
    return 1;
  }
  const double unlike = Unlikeness(negative.along, positive.along) +
                        static_cast<double>(cols - 1) * Unlikeness(negative.across, positive.across);
  double largest = 0;
  for (int64_t j = 0; j < rows; ++j) {
    const absl::Span<const float> v = head.label_directions.row(j);
    const double v_squared = SquaredNorm(v);
    const double on_line = isotropic ? 0 : InnerProduct(v, head.noise_direction) / line_norm;
    // How far apart the clean gradients of the two labels are, in units of |v|.
    const double probability = head.probabilities[static_cast<size_t>(j)], v_norm = std::sqrt(v_squared);
    const double separation = CleanCoefficient(probability, 0, v_norm, head.clip_norm) -
                              CleanCoefficient(probability, 1, v_norm, head.clip_norm);
    // The label moves the row by `separation` times v: split into the part on the noise's line and the part across it.
    const double along = separation * separation * on_line * on_line;
    const double across = cols == 1 ? 0 : separation * separation * std::max(0.0, v_squared - on_line * on_line);
    const double sum_kl = 0.5 * (unlike + Ratio(along, negative.along) + Ratio(along, positive.along) +
                                 Ratio(across, negative.across) + Ratio(across, positive.across));
    // Also for NaN: what cannot be bounded is not.
    if (!(sum_kl <= std::numeric_limits<double>::max())) {
      return 1;
    }
    largest = std::max(largest, sum_kl);
  }
  // The exact bound holds for equal covariances only; else Theorem 1's, which is looser.
  return unlike == 0 ? GaussianAucBound(largest) : AucBound(largest);
}

std::vector<double> ConditionalLogRatios(ConstMatrixView released, const ReleasingHead& head) {
  // Places stand in for v, p and noise, which describe no pair of labels for several classes and for numbers.
  const std::vector<Range> ranges = head.places.empty() ? LogRatioReader(released, head).Read() : OfPlaces(head);
  std::vector<double> scores(ranges.size());
  for (size_t j = 0; j < scores.size(); ++j) {
    scores[j] = head.labels.empty() ? (ranges[j].low + ranges[j].high) / 2 : AgainstLabel(ranges[j], head.labels[j]);
  }
  return scores;
}

double EvidenceWeight(const ReleasingHead& head) {
  // Log ratios of stated noise already have the unit in which evidence adds.
  const bool are_places = !head.places.empty() || !head.releases_posterior;
  return head.label_mu > 0 && are_places ? head.label_mu * head.label_mu : 1;
}

// The adversary keeps the sharpest of several views of the same noised label; a mean of them would gain nothing.
std::vector<double> RepeatPrecisions(const ReleasingHead& head) {
  const bool of_places = !head.places.empty();
  std::vector<double> precisions(of_places ? head.places.size() : head.probabilities.size());
  const std::vector<double> v_squared = of_places ? std::vector<double>() : SquaredNorms(head.label_directions);
  for (size_t j = 0; j < precisions.size(); ++j) {
    if (of_places) {
      precisions[j] = head.exact[j] != 0 && std::isfinite(head.places[j]) ? 1 : 0;
      continue;
    }
    const double v_norm = std::sqrt(v_squared[j]);
    if (head.has_flipped_label ? KeepsLabel(head, j, v_norm) : v_norm > 0) {
      const double probability = head.probabilities[j];
      precisions[j] = (head.releases_posterior ? probability * (1 - probability) : 1) / Margin(head, j, 1, v_norm);
    }
  }
  return precisions;
}

std::vector<LabelResidual> LabelResiduals(ConstMatrixView released, const ReleasingHead& head, double label_mu) {
  if (!head.places.empty()) {  // v and p stand for no pair of labels.
    return label_mu > 0 ? ResidualsOfPlaces(head, label_mu) : std::vector<LabelResidual>(head.places.size());
  }
  // No noise is NaN, which compares false.
  if (head.noise_negative.along >= 0 && head.noise_positive.along >= 0) {
    return OfGradientNoise(released, head);
  }
  if (label_mu > 0 && head.clip_norm == 0) {
    return OfLabelNoise(released, head, label_mu);
  }
  return std::vector<LabelResidual>(static_cast<size_t>(released.rows()));
}

}  // namespace splitveil
