#include "common/leakage/surrogate_head.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/leakage/fading_mean.h"

namespace splitveil {
namespace {

// The least correlation of the main view with the labels that is reckoned with: that of two Gaussian classes half a
// standard deviation apart, about what Marvell with s = 4 leaves.
constexpr double kLeastReliability = 0.25;
// Beyond which a view would never be outvoted.
constexpr double kLargestReliability = 0.98;
constexpr double kLargestMainWeight = 6;
constexpr double kLargestCosineWeight = 12;

// Log ratio per unit of a score of variance `variance` whose correlation with a label of -1 or 1 is `reliability`.
double WeightOf(double reliability, double variance) {
  return variance > 0 ? 2 * reliability / (std::sqrt(variance) * (1 - reliability * reliability)) : 0;
}

double MeanProduct(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    sum += static_cast<double>(a[j]) * b[j];
  }
  return sum / static_cast<double>(a.size());
}

// Expected label, -1 or 1, of each log ratio.
std::vector<float> Beliefs(const std::vector<float>& log_ratios) {
  std::vector<float> beliefs(log_ratios.size());
  std::transform(log_ratios.begin(), log_ratios.end(), beliefs.begin(), [](float x) { return std::tanh(x / 2); });
  return beliefs;
}

}  // namespace

std::vector<float> SurrogateHead::Weigh(const FieldCosines& cosines, const std::vector<float>& main, Teacher& teacher) {
  const std::vector<float> whole = cosines.Whole();
  Fade(MeanProduct(main, cosines.even), teacher.main_a);
  Fade(MeanProduct(main, cosines.odd), teacher.main_b);
  Fade(MeanProduct(cosines.even, cosines.odd), teacher.a_b);
  Fade(MeanProduct(whole, whole), teacher.squared);
  // Correlations m a = rho_m rho_a and so on, so that m a * m b / a b = rho_m^2.
  const bool agree = teacher.main_a > 0 && teacher.main_b > 0 && teacher.a_b > 0;
  const double main_reliability = std::clamp(agree ? std::sqrt(teacher.main_a * teacher.main_b / teacher.a_b) : 0,
                                             kLeastReliability, kLargestReliability);
  const double agreement = teacher.squared > 0 ? (teacher.main_a + teacher.main_b) / std::sqrt(teacher.squared) : 0;
  const double reliability = std::clamp(agreement / main_reliability, 0.0, kLargestReliability);
  const double main_weight = std::min(WeightOf(main_reliability, 1), kLargestMainWeight);
  const double cosine_weight = std::min(WeightOf(reliability, teacher.squared), kLargestCosineWeight);
  std::vector<float> log_ratios;
  log_ratios.reserve(main.size());
  for (size_t j = 0; j < main.size(); ++j) {
    log_ratios.push_back(static_cast<float>(main_weight * main[j] + cosine_weight * whole[j]));
  }
  return log_ratios;
}

SurrogateScores SurrogateHead::Take(const GradientViews& views, ConstMatrixView activations) {
  SurrogateScores scores;
  scores.log_ratios.resize(static_cast<size_t>(views.rows), 0);
  scores.matching = scores.log_ratios;
  if (views.empty()) {
    return scores;
  }
  std::vector<float> evidence;
  evidence.reserve(views.main.size());
  for (float place : views.main) {
    evidence.push_back(static_cast<float>(WeightOf(kLeastReliability, 1) * place));
  }
  const Matrix features = features_.Take(activations);
  std::vector<float> across(views.main.size(), 0);
  for (Teacher& teacher : teachers_) {
    teacher.field.Turn(views.turn);
    if (features.size() > 0) {
      const FieldCosines cosines = teacher.field.Cosines(features_, features, views.across);
      teacher.field.Learn(features, views.across, Beliefs(evidence));
      evidence = Weigh(cosines, views.main, teacher);
      across = cosines.Whole();
    }
  }
  for (size_t j = 0; j < evidence.size(); ++j) {
    scores.log_ratios[j] = evidence[j];
    // ||(main, across) + (1, field)||^2 - ||(main, across) - (1, field)||^2, the field of length 1.
    scores.matching[j] = 4 * (static_cast<double>(views.main[j]) + across[j]);
  }
  return scores;
}

}  // namespace splitveil
