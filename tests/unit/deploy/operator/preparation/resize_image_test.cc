#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "deploy/operator/preparation/image_reader.h"
#include "deploy/operator/preparation/seeded_draws.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<uint8_t> Noise(const ImageShape& shape) {
  SeededDraws draws(5, 0);
  std::vector<uint8_t> pixels(static_cast<size_t>(shape.pixels()));
  for (uint8_t& pixel : pixels) {
    pixel = static_cast<uint8_t>(draws.Word());
  }
  return pixels;
}

TEST(ResizeImageTest, ChannelsFirstMovesThePlanesApart) {
  EXPECT_THAT(ChannelsFirst(std::vector<uint8_t>{1, 2, 3, 4, 5, 6}, {3, 1, 2}), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(ResizeImageTest, TheSameSizeChangesNothing) {
  const ImageShape shape = {3, 7, 5};
  EXPECT_EQ(ResizeImage(Noise(shape), shape, shape), Noise(shape));
}

TEST(ResizeImageTest, HalvingAveragesBlocksOfEveryChannel) {
  const ImageShape from = {2, 6, 8};
  const std::vector<uint8_t> old = Noise(from);
  const std::vector<uint8_t> halved = ResizeImage(old, from, {2, 3, 4});
  ASSERT_EQ(halved.size(), 24);
  for (int c = 0; c < 2; ++c) {
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 4; ++x) {
        const auto at = [&](int dy, int dx) {
          return static_cast<double>(old[c * 48 + (2 * y + dy) * 8 + 2 * x + dx]);
        };
        EXPECT_NEAR(halved[c * 12 + y * 4 + x], (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4, 0.51);
      }
    }
  }
}

TEST(ResizeImageTest, ShrinkingByAFractionWeighsTheCoveredArea) {
  // 3 pixels to 2: the first covers one and a half old ones.
  EXPECT_THAT(ResizeImage(std::vector<uint8_t>{30, 60, 150}, {1, 1, 3}, {1, 1, 2}), ElementsAre(40, 120));
}

TEST(ResizeImageTest, GrowingInterpolatesBetweenCentres) {
  // New centres at -0.25, 0.25, 0.75, 1.25 of the old axis.
  EXPECT_THAT(ResizeImage(std::vector<uint8_t>{0, 100}, {1, 1, 2}, {1, 1, 4}), ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(ResizeImage(std::vector<uint8_t>{0, 100}, {1, 2, 1}, {1, 4, 1}), ElementsAre(0, 25, 75, 100));
}

TEST(ResizeImageTest, OnePixelFillsAnyImageAndAConstantStaysOne) {
  EXPECT_THAT(ResizeImage(std::vector<uint8_t>{7}, {1, 1, 1}, {1, 5, 3}), Each(7));
  EXPECT_THAT(ResizeImage(std::vector<uint8_t>(37 * 53, 255), {1, 37, 53}, {1, 11, 84}), Each(255));
}

}  // namespace
}  // namespace splitveil
