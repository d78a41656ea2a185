#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "label_party/noise/noise_plan.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

constexpr NoisePosition kPosition{3, 4, 0};

std::vector<float> Draws(uint32_t stream, uint64_t first, size_t count) {
  std::vector<float> draws(count);
  FixedGaussian()->Fill({kPosition.epoch, kPosition.batch, stream}, first, absl::MakeSpan(draws));
  return draws;
}

// The documented positions of the draws: what makes a resumed run repeat its bytes.
TEST(RowNoiseTest, TakesEachRowsDrawsFromItsDocumentedPosition) {
  for (int64_t cols : {1, 7, 8}) {
    const LabelledBatch batch = MakeLabelledBatch(150, cols);
    const std::vector<float> direction(cols, 0.5f);
    Matrix out;
    std::vector<RowNoise> noise_of_row;
    for (int64_t j = 0; j < 150; ++j) {
      noise_of_row.push_back({j % 3 == 0 ? 2.0 : 0.0, j % 3 == 1 ? 3.0 : 0.0, j % 3 != 0 && j % 2 == 0 ? 0.5 : 0.0});
    }
    const auto gaussian = FixedGaussian();
    ASSERT_TRUE(WritePerturbedRows(batch.gradients, {direction, noise_of_row, {}}, kPosition, *gaussian, out).ok());
    for (int64_t j = 0; j < 150; ++j) {
      const RowNoise noise = noise_of_row[j];
      const double z = Draws(1, 2 * j, 1)[0];
      const std::vector<float> eta = Draws(0, j * (cols + cols % 2), cols);
      for (int64_t k = 0; k < cols; ++k) {
        const double g = batch.gradients.row(j)[k];
        const double expected = g + noise.own * z * g + noise.along * z * direction[k] + noise.across * eta[k];
        EXPECT_NEAR(out.row(j)[k], expected, 1e-6 * (1 + std::abs(expected))) << j << " " << k;
      }
    }
  }
}

TEST(RowNoiseTest, CopiesRowsWithoutNoiseBitByBit) {
  const LabelledBatch batch = MakeLabelledBatch(10, 7);
  Matrix out;
  const auto gaussian = FixedGaussian();
  const std::vector<RowNoise> no_noise(10);
  ASSERT_TRUE(WritePerturbedRows(batch.gradients, {{}, no_noise, {}}, kPosition, *gaussian, out).ok());
  EXPECT_EQ(ValuesOf(out), ValuesOf(batch.gradients));
}

TEST(RowNoiseTest, FailsForEveryKindOfNoiseThatLeavesTheRangeOfAFloat) {
  const LabelledBatch batch = MakeLabelledBatch(70, 9);
  const std::vector<float> direction(9, 0.5f);
  const auto gaussian = FixedGaussian();
  for (const RowNoise noise : {RowNoise{1e60, 0, 0}, RowNoise{0, 1e60, 0}, RowNoise{0, 0, 1e60}, RowNoise{0, 1e60, 1},
                               RowNoise{0, 1, std::numeric_limits<double>::infinity()}}) {
    for (int64_t bad_row : {0, 63, 69}) {
      Matrix out;
      std::vector<RowNoise> noise_of_row(70, RowNoise{0, 0, 1});
      noise_of_row[bad_row] = noise;
      EXPECT_EQ(WritePerturbedRows(batch.gradients, {direction, noise_of_row, {}}, kPosition, *gaussian, out).code(),
                absl::StatusCode::kInternal);
      EXPECT_EQ(out.size(), 0);
    }
  }
}

}  // namespace
}  // namespace splitveil
