#include "deploy/operator/report/curve_json.h"

#include "deploy/operator/report/curve.h"

namespace splitveil {
namespace {

Json Points(const std::vector<CurvePoint>& points) {
  Json array = Json::array();
  for (const CurvePoint& point : points) {
    array.push_back(Json::array({static_cast<int64_t>(point.x), NumberJson(point.y)}));
  }
  return array;
}

}  // namespace

Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  const Curve curve = MakeCurve(steps, values);
  return {{"line", Points(curve.line)}, {"points", Points(curve.points)}};
}

}  // namespace splitveil
