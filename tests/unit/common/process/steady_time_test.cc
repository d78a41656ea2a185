#include "common/process/steady_time.h"

#include <gtest/gtest.h>
#include <thread>

namespace splitveil {
namespace {

TEST(SteadyAfterTest, CountsFromTheStart) {
  const SteadyTime start = SteadyNow();
  EXPECT_EQ(SteadyAfter(absl::Milliseconds(1500), start) - start, std::chrono::milliseconds(1500));
  EXPECT_EQ(SteadyAfter(-absl::Seconds(1), start) - start, std::chrono::seconds(-1));
}

TEST(SteadyAfterTest, AnInfiniteWaitHasAnEndThatCanBeComputedWith) {
  const SteadyTime start = SteadyNow();
  EXPECT_EQ(SteadyAfter(absl::InfiniteDuration(), start) - start, std::chrono::hours(24 * 365));
}

TEST(WakeableSleepTest, LastsUntilItsTime) {
  WakeableSleep sleep;
  const SteadyTime time = SteadyAfter(absl::Milliseconds(20));
  sleep.Until(time);
  EXPECT_GE(SteadyNow(), time);
}

TEST(WakeableSleepTest, DoesNotSleepUntilATimeThatIsPast) {
  WakeableSleep sleep;
  sleep.Until(SteadyTime());
  sleep.Until(SteadyTime::min());
}

// Were they not ended, these would outlast the test.
TEST(WakeableSleepTest, AWakeEndsIt) {
  WakeableSleep sleep;
  std::thread other([&] { sleep.Wake(); });
  sleep.Until(SteadyAfter(absl::Hours(1)));
  other.join();
  sleep.Wake();  // Before it begins.
  sleep.Until(SteadyAfter(absl::Hours(1)));
}

TEST(WakeableSleepTest, SeveralWakesEndOneSleepNotTheNext) {
  WakeableSleep sleep;
  for (int i = 0; i < 3; ++i) {
    sleep.Wake();
  }
  sleep.Until(SteadyAfter(absl::Hours(1)));
  const SteadyTime time = SteadyAfter(absl::Milliseconds(20));
  sleep.Until(time);
  EXPECT_GE(SteadyNow(), time);
}

}  // namespace
}  // namespace splitveil
