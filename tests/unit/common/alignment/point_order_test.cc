#include "common/alignment/point_order.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace splitveil {
namespace {

// `count` points whose byte k is below `values` where k < 2, as where many share their leading bits, and any else.
std::vector<Point> RandomPoints(size_t count, int values) {
  std::mt19937 random(20261123);
  std::vector<Point> points(count);
  for (Point& point : points) {
    for (size_t k = 0; k < point.size(); ++k) {
      point[k] = static_cast<uint8_t>(random() % (k < 2 ? values : 256));
    }
  }
  return points;
}

std::vector<Point> InOrder(const std::vector<Point>& points) {
  std::vector<Point> ordered;
  for (const uint32_t position : AscendingPositions(points)) {
    ordered.push_back(points[position]);
  }
  return ordered;
}

TEST(PointOrderTest, IsThatOfASort) {
  for (const int values : {1, 3, 256}) {
    for (const size_t count : {0, 1, 2, 20000}) {
      const std::vector<Point> points = RandomPoints(count, values);
      std::vector<Point> sorted = points;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(InOrder(points), sorted) << count << " points, " << values << " values";
    }
  }
}

TEST(PointOrderTest, NamesEachOfEqualPointsOnce) {
  std::vector<uint32_t> positions = AscendingPositions(std::vector<Point>(3, Point{7}));
  std::sort(positions.begin(), positions.end());
  EXPECT_EQ(positions, (std::vector<uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace splitveil
