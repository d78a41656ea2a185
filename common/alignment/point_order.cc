#include "common/alignment/point_order.h"

#include <algorithm>
#include <numeric>

namespace splitveil {

std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points) {
  // First by their leading 16 bits, by counting: the points to compare with each other then fit in a processor's cache,
  // while comparing them all waits for memory at nearly every step.
  const auto bucket = [](const Point& point) { return size_t{point[0]} << 8 | point[1]; };
  std::vector<uint32_t> ends(size_t{1} << 16);  // Where each bucket ends; before it is filled, where it begins.
  for (const Point& point : points) {
    ++ends[bucket(point)];
  }
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), uint32_t{0});
  std::vector<uint32_t> positions(points.size());
  for (uint32_t position = 0; position < points.size(); ++position) {
    positions[ends[bucket(points[position])]++] = position;
  }
  auto begin = positions.begin();
  for (const uint32_t end : ends) {
    std::sort(begin, positions.begin() + end, [&](uint32_t a, uint32_t b) { return points[a] < points[b]; });
    begin = positions.begin() + end;
  }
  return positions;
}

}  // namespace splitveil
