#include "label_party/protection/row_clipping.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/leakage/inner_product.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

TEST(ClipRowsTest, ScalesLongerRowsDownToTheNorm) {
  Matrix gradients = MakeLabelledBatch(40, 9).gradients;
  const Matrix before = gradients;
  ClipRows(0.4, gradients);
  int64_t clipped = 0;
  for (int64_t j = 0; j < 40; ++j) {
    const double scale = 0.4 / std::sqrt(SquaredNorm(before.row(j)));
    clipped += scale < 1;
    for (int64_t k = 0; k < 9; ++k) {
      EXPECT_NEAR(gradients.row(j)[k], std::min(1.0, scale) * before.row(j)[k], 1e-6);
    }
  }
  EXPECT_GT(clipped, 5);
  EXPECT_LT(clipped, 40);
}

TEST(ClipRowsTest, LeavesShorterRowsBitByBit) {
  Matrix gradients = MakeLabelledBatch(40, 9).gradients;
  const std::vector<float> before = ValuesOf(gradients);
  ClipRows(100, gradients);
  EXPECT_EQ(ValuesOf(gradients), before);
}

TEST(ClipRowsTest, LeavesARowThatIsNotFiniteSo) {
  Matrix gradients = MakeLabelledBatch(2, 4).gradients;
  gradients.row(0)[1] = std::numeric_limits<float>::quiet_NaN();
  gradients.row(1)[1] = std::numeric_limits<float>::infinity();
  ClipRows(0.1, gradients);
  EXPECT_TRUE(std::isnan(gradients.row(0)[1]));
  EXPECT_FALSE(std::isfinite(gradients.row(1)[1]));
}

}  // namespace
}  // namespace splitveil
