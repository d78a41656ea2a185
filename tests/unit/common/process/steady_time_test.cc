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

TEST(UsualWaitTest, AStallIsLongAndTenTimesWhatIsUsual) {
  UsualWait quick;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(quick.IsStall(0.1));
  }
  EXPECT_FALSE(quick.IsStall(4.9));  // From here on the mean is 0.33 s.
  EXPECT_TRUE(quick.IsStall(5));
  EXPECT_TRUE(quick.IsStall(5));  // The first was none of the usual ones.
}

TEST(UsualWaitTest, WhereWaitsAreLongAStallIsLonger) {
  UsualWait slow;
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(slow.IsStall(2));
  }
  EXPECT_FALSE(slow.IsStall(19));
  EXPECT_TRUE(slow.IsStall(60));
}

TEST(UsualWaitTest, OfFewNothingIsUsual) {
  UsualWait fresh;
  EXPECT_FALSE(fresh.IsStall(100));
  EXPECT_FALSE(fresh.IsStall(0));
  EXPECT_FALSE(fresh.IsStall(1001));
  UsualWait begun;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(begun.IsStall(0.1));
  }
  EXPECT_TRUE(begun.IsStall(6));
}

}  // namespace
}  // namespace splitveil
