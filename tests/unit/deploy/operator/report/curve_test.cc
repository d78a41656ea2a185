#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "deploy/operator/report/report_sections.h"

namespace splitveil {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<int64_t> Steps(int64_t count) {
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < count; ++i) {
    steps.push_back(i);
  }
  return steps;
}

double Largest(const std::vector<CurvePoint>& points) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const CurvePoint& point : points) {
    largest = std::max(largest, point.y);
  }
  return largest;
}

TEST(CurveTest, ShowsAShortSeriesAsItIs) {
  const Curve curve = MakeCurve({3, 5}, {0.5, 0.75});
  ASSERT_THAT(curve.line, SizeIs(2));
  EXPECT_EQ(curve.line[1].x, 5);
  EXPECT_EQ(curve.line[1].y, 0.75);
  EXPECT_THAT(curve.points, IsEmpty());
}

TEST(CurveTest, SmoothingKeepsALinearSeriesButForItsEnds) {
  std::vector<double> values;
  for (int64_t step : Steps(1000)) {
    values.push_back(2.0 * static_cast<double>(step));
  }
  const Curve curve = MakeCurve(Steps(1000), values);
  for (const CurvePoint& point : curve.line) {
    if (point.x >= 25 && point.x < 975) {
      EXPECT_NEAR(point.y, 2 * point.x, 1e-9);
    }
  }
}

TEST(CurveTest, FitsALongSeriesOnTheScreenFromItsFirstToItsLastStep) {
  const Curve curve = MakeCurve(Steps(100000), std::vector<double>(100000, 0.625));
  EXPECT_THAT(curve.line, SizeIs(kMaxLinePoints));
  EXPECT_THAT(curve.points, SizeIs(kMaxRawPoints));
  EXPECT_EQ(curve.line.front().x, 0);
  EXPECT_EQ(curve.line.back().x, 99999);
  for (const CurvePoint& point : curve.line) {
    EXPECT_NEAR(point.y, 0.625, 1e-9);
  }
}

TEST(CurveTest, ThinningLosesNoOutlier) {
  std::vector<double> values(50000, 0.5);
  values[31337] = 0.97;
  EXPECT_EQ(Largest(MakeCurve(Steps(50000), values).points), 0.97);
}

TEST(CurveTest, AnEmptySeriesHasNoCurve) {
  EXPECT_THAT(MakeCurve({}, {}).line, IsEmpty());
  EXPECT_THAT(MakeCurve({}, {}).points, IsEmpty());
}

TEST(CurveTest, LeavesOutWhatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const Curve curve = MakeCurve({0, 1, 2, 3}, {nan, 0.5, infinity, -infinity});
  ASSERT_THAT(curve.line, SizeIs(1));
  EXPECT_EQ(curve.line[0].x, 1);
  EXPECT_THAT(MakeCurve(Steps(1000), std::vector<double>(1000, nan)).line, IsEmpty());
}

TEST(CurveTest, StaysWithinTheShorterOfUnequalInputs) {
  EXPECT_THAT(MakeCurve({0, 1, 2}, {0.5}).line, SizeIs(1));
  EXPECT_THAT(MakeCurve({0}, {0.5, 0.75}).line, SizeIs(1));
}

}  // namespace
}  // namespace splitveil
