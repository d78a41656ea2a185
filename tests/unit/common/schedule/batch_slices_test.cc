#include "common/schedule/batch_slices.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(BatchSlicesTest, CoverTheBatchInOrderWithinTheLimits) {
  for (const int64_t rows : {1, 255, 256, 257, 400, 511, 512, 513, 1024, 8191, 8192, 8193, 32768, 1000003}) {
    int64_t end = 0;
    const std::vector<RowRange> slices = SlicesOf(rows);
    for (const RowRange& slice : slices) {
      EXPECT_EQ(slice.first, end);
      EXPECT_GE(slice.rows, 1);
      EXPECT_LE(slice.rows, kMostSliceRows);
      if (slice.end() < rows) {
        EXPECT_GE(slice.rows, kLeastSliceRows);
        EXPECT_EQ(slice.rows, slices.front().rows);
      }
      end = slice.end();
    }
    EXPECT_EQ(end, rows);
  }
}

TEST(BatchSlicesTest, OfWhatTheProtocolSays) {
  EXPECT_EQ(SlicesOf(200).size(), 1);
  EXPECT_EQ(SlicesOf(300).front().rows, 256);
  EXPECT_EQ(SlicesOf(1024).front().rows, 512);
  EXPECT_EQ(SlicesOf(1025).front().rows, 513);
  EXPECT_EQ(SlicesOf(32768).size(), 8);
}

}  // namespace
}  // namespace splitveil
