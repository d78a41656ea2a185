#include <algorithm>
#include <cmath>
#include <utility>

#include "deploy/operator/report/report_sections.h"

namespace splitveil {
namespace {

constexpr int64_t kWindowShare = 20;

std::vector<CurvePoint> Smooth(const std::vector<CurvePoint>& all) {
  const auto size = static_cast<int64_t>(all.size());
  std::vector<double> sums(all.size() + 1, 0);
  for (int64_t i = 0; i < size; ++i) {
    sums[i + 1] = sums[i] + all[i].y;
  }
  // Sums from the start make each window two lookups, whatever its width.
  const int64_t half_window = std::max<int64_t>(1, size / kWindowShare / 2);
  const int64_t count = std::min(size, kMaxLinePoints);
  std::vector<CurvePoint> line;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t center =
        k * (size - 1) / std::max<int64_t>(1, count - 1);  // The first and the last step are on the line.
    const int64_t begin = std::max<int64_t>(0, center - half_window);
    const int64_t end = std::min(size, center + half_window + 1);
    line.push_back({all[center].x, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return line;
}

std::vector<CurvePoint> Thin(const std::vector<CurvePoint>& all) {
  const auto size = static_cast<int64_t>(all.size());
  if (size <= kMaxRawPoints) {
    return all;
  }
  constexpr int64_t kStretches = kMaxRawPoints / 2;
  std::vector<CurvePoint> kept;
  for (int64_t k = 0; k < kStretches; ++k) {
    const auto begin = all.begin() + k * size / kStretches;
    const auto end = all.begin() + (k + 1) * size / kStretches;
    // Both extremes of a stretch stay: a chart that thins outliers away would hide the leak.
    auto [least, largest] =
        std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    kept.push_back(*std::min(least, largest));
    kept.push_back(*std::max(least, largest));
  }
  return kept;
}

Json Points(const std::vector<CurvePoint>& points) {
  Json array = Json::array();
  for (const CurvePoint& point : points) {
    array.push_back(Json::array({static_cast<int64_t>(point.x), NumberJson(point.y)}));
  }
  return array;
}

}  // namespace

Curve MakeCurve(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  std::vector<CurvePoint> all;
  for (size_t i = 0; i < steps.size() && i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      all.push_back({static_cast<double>(steps[i]), values[i]});
    }
  }
  if (static_cast<int64_t>(all.size()) <= kMaxUnsmoothed) {
    return {std::move(all), {}};
  }
  return {Smooth(all), Thin(all)};
}

Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  const Curve curve = MakeCurve(steps, values);
  return {{"line", Points(curve.line)}, {"points", Points(curve.points)}};
}

}  // namespace splitveil
