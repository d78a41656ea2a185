// A series of thousands of steps as what a screen can show: a smoothed line over faint raw points; as JSON, too.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_H_

#include <cstdint>
#include <vector>

#include "common/figures/json_number.h"

namespace splitveil {

struct CurvePoint {
  double x = 0, y = 0;
};

struct Curve {
  std::vector<CurvePoint> line;    // Smoothed; at most kMaxLinePoints.
  std::vector<CurvePoint> points;  // As recorded; at most kMaxRawPoints. Empty where the line is unsmoothed.
};

inline constexpr int64_t kMaxLinePoints = 300;
inline constexpr int64_t kMaxRawPoints = 600;
inline constexpr int64_t kMaxUnsmoothed = 40;  // Series up to this length are shown as they are.

// `values` at ascending `steps` (equal lengths); values that are not finite are left out. The line is the mean over a
// centred window of a twentieth of the series, cut at its ends. Of more raw points than fit, the least and the largest
// of each stretch stay, so that no outlier disappears.
Curve MakeCurve(const std::vector<int64_t>& steps, const std::vector<double>& values);

// {"line": [[step, value], ...], "points": [...]}, smoothed and thinned (curve.h).
Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values);

// One field of every row against its step.
template <typename Row>
Json FieldCurve(const std::vector<Row>& rows, double Row::*field) {
  std::vector<int64_t> steps;
  std::vector<double> values;
  for (const Row& row : rows) {
    steps.push_back(row.step);
    values.push_back(row.*field);
  }
  return CurveJson(steps, values);
}

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_H_
