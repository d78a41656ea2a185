#include "common/leakage/label_residual.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/leakage/row_products.h"

namespace splitveil {
namespace {

// Share of the largest squared row below which a variance is none that floats resolve, as in ConditionalLogRatios.
constexpr double kResolution = 1e-10;

// (p - label) of a gradient that is scaled down to clip_norm.
double Coefficient(double probability, int label, double v_norm, double clip_norm) {
  const double coefficient = probability - label;
  const double norm = std::abs(coefficient) * v_norm;
  return clip_norm > 0 && norm > clip_norm ? coefficient * clip_norm / norm : coefficient;
}

std::vector<LabelResidual> OfGradientNoise(ConstMatrixView released, const ReleasingHead& head) {
  const std::vector<double> x_squared = SquaredNorms(released), v_squared = SquaredNorms(head.label_directions);
  const std::vector<double> x_v = PairwiseProducts(released, head.label_directions);
  const std::vector<double> x_line = InnerProducts(released, head.noise_direction);
  const std::vector<double> v_line = InnerProducts(head.label_directions, head.noise_direction);
  const double largest = x_squared.empty() ? 0 : *std::max_element(x_squared.begin(), x_squared.end());
  const double along = std::max(kResolution * largest, head.noise_negative.along);
  const double across = std::max(kResolution * largest, head.noise_negative.across);
  std::vector<LabelResidual> residuals(x_squared.size());
  for (size_t j = 0; j < residuals.size() && largest > 0; ++j) {
    if (v_squared[j] == 0) {
      continue;
    }
    const double v_across = std::max(0.0, v_squared[j] - v_line[j] * v_line[j]);
    const double v_norm = std::sqrt(v_squared[j]);
    const double if_negative = Coefficient(head.probabilities[j], 0, v_norm, head.clip_norm);
    const double if_positive = Coefficient(head.probabilities[j], 1, v_norm, head.clip_norm);
    // <S^-1 v, x - if_negative v>, against its standard deviation sqrt(<v, S^-1 v>). A positive lies towards -v.
    const double on_line = x_line[j] - if_negative * v_line[j];
    const double on_v = x_v[j] - if_negative * v_squared[j];
    const double deviation = std::sqrt(v_line[j] * v_line[j] / along + v_across / across);
    residuals[j] = {-(on_line * v_line[j] / along + (on_v - on_line * v_line[j]) / across) / deviation,
                    (if_negative - if_positive) * deviation};
  }
  return residuals;
}

std::vector<LabelResidual> OfPlaces(const ReleasingHead& head, double mu) {
  std::vector<LabelResidual> residuals(head.places.size());
  for (size_t j = 0; j < residuals.size(); ++j) {
    if (head.exact[j] != 0 && std::isfinite(head.places[j])) {
      const double shift = mu * head.separations[j];
      residuals[j] = {shift * head.places[j], shift};
    }
  }
  return residuals;
}

std::vector<LabelResidual> OfLabelNoise(ConstMatrixView released, const ReleasingHead& head, double mu) {
  const std::vector<double> ratios = ConditionalLogRatios(released, head);
  const std::vector<double> v_squared = SquaredNorms(head.label_directions);
  std::vector<LabelResidual> residuals(ratios.size());
  for (size_t j = 0; j < ratios.size(); ++j) {
    const double probability = head.probabilities[j];
    const bool is_lost =
        head.releases_posterior && !(probability >= kLeastProbability && probability <= 1 - kLeastProbability);
    if (!is_lost && v_squared[j] > 0) {
      // The noised label less 1/2, by itself or times mu^2.
      residuals[j] = {head.releases_posterior ? ratios[j] / mu + mu / 2 : mu * (ratios[j] + 0.5), mu};
    }
  }
  return residuals;
}

}  // namespace

std::vector<LabelResidual> LabelResiduals(ConstMatrixView released, const ReleasingHead& head, double label_mu) {
  if (!head.places.empty()) {  // v and p stand for no pair of labels.
    return label_mu > 0 ? OfPlaces(head, label_mu) : std::vector<LabelResidual>(head.places.size());
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
