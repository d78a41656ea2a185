#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "common/process/steady_time.h"
#include "common/transport/client_call.h"

namespace splitveil {
namespace {

constexpr std::chrono::seconds kPatience(10);

// Arms the watchdog for this long, and says for how long it was: a busy machine may wake this thread late.
absl::Duration ArmFor(absl::Duration length, StreamWatchdog& watchdog) {
  const SteadyTime begun = SteadyNow();
  watchdog.Arm();
  absl::SleepFor(length);
  watchdog.Disarm();
  return absl::Seconds(SecondsSince(begun));
}

TEST(StreamWatchdogTest, FiresOnceWhenArmedForLongerThanTheLimit) {
  std::promise<void> fired;
  std::atomic<int> calls{0};
  StreamWatchdog watchdog(absl::Milliseconds(5), [&] {
    ++calls;
    fired.set_value();
  });
  const absl::Time start = absl::Now();
  watchdog.Arm();
  ASSERT_EQ(fired.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(4));
  EXPECT_TRUE(watchdog.expired());
  watchdog.Arm();  // Too late for this stream.
  absl::SleepFor(absl::Milliseconds(15));
  EXPECT_EQ(calls, 1);
}

TEST(StreamWatchdogTest, DoesNotFireUnlessArmed) {
  std::atomic<int> calls{0};
  {
    StreamWatchdog watchdog(absl::Milliseconds(1), [&] { ++calls; });
    absl::SleepFor(absl::Milliseconds(10));
    EXPECT_FALSE(watchdog.expired());
  }
  EXPECT_EQ(calls, 0);
}

TEST(StreamWatchdogTest, DoesNotFireAfterDisarm) {
  std::atomic<int> calls{0};
  constexpr absl::Duration kLimit = absl::Milliseconds(20);
  StreamWatchdog watchdog(kLimit, [&] { ++calls; });
  const absl::Duration armed = ArmFor(absl::ZeroDuration(), watchdog);
  absl::SleepFor(2 * kLimit);
  EXPECT_TRUE(!watchdog.expired() || armed >= kLimit);
  EXPECT_LE(calls, watchdog.expired() ? 1 : 0);
}

// Each wait is a tenth of the limit, all together one and a half limits.
TEST(StreamWatchdogTest, ManyShortWaitsDoNotAddUp) {
  constexpr absl::Duration kLimit = absl::Milliseconds(100);
  StreamWatchdog watchdog(kLimit, [] {});
  absl::Duration longest;
  for (int i = 0; i < 15; ++i) {
    longest = std::max(longest, ArmFor(kLimit / 10, watchdog));
  }
  EXPECT_TRUE(!watchdog.expired() || longest >= kLimit) << longest;
}

TEST(StreamWatchdogTest, FiresInAWaitAfterEarlierOnesWereInTime) {
  std::promise<void> fired;
  StreamWatchdog watchdog(absl::Milliseconds(20), [&] { fired.set_value(); });
  for (int i = 0; i < 100; ++i) {
    watchdog.Arm();
    watchdog.Disarm();
  }
  watchdog.Arm();
  EXPECT_EQ(fired.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(StreamWatchdogTest, DestructionWhileArmedDoesNotFireAndDoesNotWait) {
  std::atomic<int> calls{0};
  const absl::Time start = absl::Now();
  {
    StreamWatchdog watchdog(absl::Hours(1), [&] { ++calls; });
    watchdog.Arm();
  }
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  EXPECT_EQ(calls, 0);
}

TEST(StreamWatchdogTest, InfiniteLimitNeverFires) {
  std::atomic<int> calls{0};
  StreamWatchdog watchdog(absl::InfiniteDuration(), [&] { ++calls; });
  watchdog.Arm();
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(watchdog.expired());
  EXPECT_EQ(calls, 0);
}

TEST(StreamWatchdogTest, CancelMayCallTheWatchdog) {
  std::promise<bool> expired;
  std::unique_ptr<StreamWatchdog> watchdog;
  watchdog = std::make_unique<StreamWatchdog>(absl::Milliseconds(5), [&] {
    watchdog->Disarm();
    expired.set_value(watchdog->expired());
  });
  watchdog->Arm();
  std::future<bool> result = expired.get_future();
  ASSERT_EQ(result.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(result.get());
}

TEST(StreamWatchdogTest, ManyThreadsMayArmAndDisarm) {
  StreamWatchdog watchdog(absl::Hours(1), [] {});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        watchdog.Arm();
        watchdog.Disarm();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_FALSE(watchdog.expired());
}

}  // namespace
}  // namespace splitveil
