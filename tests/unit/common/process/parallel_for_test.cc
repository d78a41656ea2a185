#include "common/process/parallel_for.h"

#include <atomic>
#include <gtest/gtest.h>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/testing/process/no_threads.h"

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

TEST(ParallelForTest, VisitsEachIndexOnceWhereNoThreadCanBeStarted) {
  const testing::NoThreads no_threads;
  EXPECT_THROW(std::thread([] {}), std::system_error);
  std::vector<int> visits(100);  // All on this thread.
  ParallelFor(visits.size(), 7, [&](size_t i) { ++visits[i]; });
  EXPECT_EQ(visits, std::vector<int>(100, 1));
}

}  // namespace
}  // namespace splitveil
