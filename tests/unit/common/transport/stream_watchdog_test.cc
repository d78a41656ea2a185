#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "common/transport/client_call.h"

namespace splitveil {
namespace {

constexpr std::chrono::seconds kPatience(10);

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
  StreamWatchdog watchdog(absl::Milliseconds(20), [&] { ++calls; });
  watchdog.Arm();
  watchdog.Disarm();
  absl::SleepFor(absl::Milliseconds(40));
  EXPECT_FALSE(watchdog.expired());
  EXPECT_EQ(calls, 0);
}

// Each wait is a tenth of the limit, all together one and a half limits.
TEST(StreamWatchdogTest, ManyShortWaitsDoNotAddUp) {
  StreamWatchdog watchdog(absl::Milliseconds(100), [] {});
  for (int i = 0; i < 15; ++i) {
    watchdog.Arm();
    absl::SleepFor(absl::Milliseconds(10));
    watchdog.Disarm();
  }
  EXPECT_FALSE(watchdog.expired());
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
