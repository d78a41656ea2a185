// Figures as JSON values.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_JSON_VALUES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_JSON_VALUES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace splitveil {

using Json = nlohmann::ordered_json;

// To five digits, more than a screen shows and a fraction of the bytes. Null for what is not finite.
Json NumberJson(double value);

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_JSON_VALUES_H_
