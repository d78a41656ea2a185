// The one way to stop a run, asked for and watched for.
#include <atomic>
#include <gtest/gtest.h>
#include <memory>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#include "nonlabel_party/session/reconnector.h"

namespace splitveil::testing {
namespace {

std::atomic<bool> signal_arrived{false};  // A signal's flag is as global.
std::atomic<int> times_asked{0};

bool Stop() {
  ++times_asked;
  return signal_arrived;
}

class StopRequestTest : public ::testing::Test {
 protected:
  StopRequestTest() {
    signal_arrived = false;
    times_asked = 0;
  }

  StopRequest stop_{&Stop};
};

TEST_F(StopRequestTest, IsSeenOnlyOnceItWasAskedFor) {
  EXPECT_TRUE(stop_.Check().ok());
  signal_arrived = true;
  EXPECT_FALSE(stop_.seen());
  EXPECT_TRUE(stop_.Asked());
  EXPECT_TRUE(stop_.seen());
}

TEST_F(StopRequestTest, StaysOnceItWasSeen) {
  signal_arrived = true;
  EXPECT_TRUE(stop_.Asked());
  signal_arrived = false;
  EXPECT_TRUE(stop_.Asked());
  EXPECT_EQ(times_asked, 1);
}

TEST_F(StopRequestTest, ItsErrorIsNotThePeersCancellation) {
  signal_arrived = true;
  const absl::Status status = stop_.Check();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_TRUE(IsStoppedOnRequest(status));
  EXPECT_FALSE(IsStoppedOnRequest(absl::CancelledError("stopped on request")));
  EXPECT_FALSE(IsStoppedOnRequest(absl::OkStatus()));
}

TEST_F(StopRequestTest, AWatcherCancelsOnce) {
  absl::Notification cancelled;  // Aborts where it is notified twice.
  const auto watcher = StopWatcher::Create(&stop_, [&] { cancelled.Notify(); });
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  signal_arrived = true;
  EXPECT_TRUE(cancelled.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_TRUE((*watcher)->Finish());
  EXPECT_TRUE((*watcher)->Finish());
  EXPECT_TRUE(stop_.seen());
}

TEST_F(StopRequestTest, AWatcherThatSawNothingCancelsNothing) {
  const auto watcher = StopWatcher::Create(&stop_, [] { ADD_FAILURE(); });
  ASSERT_TRUE(watcher.ok()) << watcher.status();
  EXPECT_FALSE((*watcher)->Finish());
  signal_arrived = true;
  EXPECT_FALSE((*watcher)->Finish());
}

}  // namespace
}  // namespace splitveil::testing
