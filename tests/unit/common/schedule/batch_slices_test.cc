#include "common/schedule/batch_slices.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(BatchSlicesTest, CoverTheBatchInOrderWithinTheLimits) {
  for (const int64_t rows : {1, 255, 256, 257, 400, 511, 512, 513, 1024, 8191, 8192, 8193, 32768, 1000003}) {
    for (const int64_t in_flight : {1, 2, 16}) {
      int64_t end = 0;
      const std::vector<RowRange> slices = SlicesOf(rows, in_flight);
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
}

TEST(BatchSlicesTest, OfWhatTheProtocolSays) {
  EXPECT_EQ(SlicesOf(200, 1).size(), 1);
  EXPECT_EQ(SlicesOf(300, 1).front().rows, 256);
  EXPECT_EQ(SlicesOf(1024, 1).front().rows, 342);
  EXPECT_EQ(SlicesOf(1026, 1).front().rows, 342);
  EXPECT_EQ(SlicesOf(1027, 1).front().rows, 343);
  EXPECT_EQ(SlicesOf(32768, 1).size(), 32);
  EXPECT_EQ(SlicesOf(1024, 2).size(), 1);
  EXPECT_EQ(SlicesOf(32768, 2).size(), 32);
}

}  // namespace
}  // namespace splitveil
