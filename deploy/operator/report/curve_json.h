// Curves as JSON values.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_JSON_H_

#include <cstdint>
#include <vector>

#include "deploy/operator/page/json_values.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_CURVE_JSON_H_
