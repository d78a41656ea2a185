#include "common/leakage/conditional_bound.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/leakage/bounds.h"
#include "common/leakage/inner_product.h"

namespace splitveil {
namespace {

// x / y where nothing over nothing is nothing: a direction in which no label moves the row needs no noise.
double Ratio(double x, double y) { return x == 0 ? 0 : x / y; }

// Of the spreads of two Gaussians in one direction, each against the other: twice the divergence of equal means.
double Unlikeness(double one, double other) { return one == other ? 0 : one / other + other / one - 2; }

// How far apart the clean gradients of the two labels are, in units of |v|.
double Separation(double probability, double v_norm, double clip_norm) {
  const auto coefficient = [&](double residual) {
    return clip_norm > 0 && residual * v_norm > clip_norm ? clip_norm / v_norm : residual;
  };
  return coefficient(std::abs(probability)) + coefficient(std::abs(1 - probability));
}

}  // namespace

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
    const double separation =
        Separation(head.probabilities[static_cast<size_t>(j)], std::sqrt(v_squared), head.clip_norm);
    const double along = separation * separation * on_line * on_line;
    const double across = cols == 1 ? 0 : separation * separation * std::max(0.0, v_squared - on_line * on_line);
    const double sum_kl = 0.5 * (unlike + Ratio(along, negative.along) + Ratio(along, positive.along) +
                                 Ratio(across, negative.across) + Ratio(across, positive.across));
    if (!(sum_kl <= std::numeric_limits<double>::max())) {
      return 1;
    }
    largest = std::max(largest, sum_kl);
  }
  return unlike == 0 ? GaussianAucBound(largest) : AucBound(largest);
}

}  // namespace splitveil
