#include "common/operations/thinned_curve.h"

#include <cmath>

namespace splitveil {

void ThinnedCurve::Add(int64_t step, double value) {
  if (!std::isfinite(value)) {
    return;
  }
  sum_ += value;
  last_step_ = static_cast<double>(step);
  if (++values_ < values_per_point_) {
    return;
  }
  points_.push_back({last_step_, sum_ / static_cast<double>(values_)});
  values_ = 0;
  sum_ = 0;
  if (points_.size() < kMaxPoints) {
    return;
  }
  for (size_t i = 0; i < kMaxPoints / 2; ++i) {
    points_[i] = {points_[2 * i + 1].step, (points_[2 * i].value + points_[2 * i + 1].value) / 2};
  }
  points_.resize(kMaxPoints / 2);
  values_per_point_ *= 2;
}

std::vector<ThinnedCurve::Point> ThinnedCurve::points() const {
  std::vector<Point> points = points_;
  if (values_ > 0) {
    points.push_back({last_step_, sum_ / static_cast<double>(values_)});
  }
  return points;
}

}  // namespace splitveil
