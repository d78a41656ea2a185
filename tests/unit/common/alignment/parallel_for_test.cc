#include "common/alignment/parallel_for.h"

#include <atomic>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

TEST(ParallelForTest, VisitsEachIndexOnceForAnyNumberOfThreads) {
  for (const size_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const size_t threads : {1, 2, 3, 16}) {
      std::vector<std::atomic<int>> visits(count);
      ParallelFor(count, threads, [&](size_t i) { ++visits[i]; });
      for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ(visits[i], 1) << "index " << i << " of " << count << " on " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace splitveil
