#include <algorithm>
#include <gtest/gtest.h>

#include "common/schedule/schedule.h"

namespace splitveil {
namespace {

LinkFigures Link(double round_trip_ms, double batch_ms) {
  return {absl::Milliseconds(round_trip_ms), absl::Milliseconds(batch_ms)};
}

double IntervalMs(const LinkFigures& link, double work_ms, int64_t in_flight) {
  return absl::ToDoubleMilliseconds(BatchInterval(link, absl::Milliseconds(work_ms), in_flight));
}

TEST(LinkUseTest, BatchesInFlightKeepALinkBusy) {
  const auto of = [](double round_trip_ms, double batch_ms, int64_t most = 64) {
    return BatchesInFlight(Link(round_trip_ms, batch_ms), most);
  };
  EXPECT_EQ(of(0.1, 0.2), 2);    // The same machine.
  EXPECT_EQ(of(40, 10), 39);     // 40 ms, 100 Mbit/s, 125 kB: six while the first returns, 32 in eight round trips.
  EXPECT_EQ(of(40, 100), 7);     // Slow rather than far.
  EXPECT_EQ(of(10, 0.1), 47);    // Fast: as many as are computed meanwhile,
  EXPECT_EQ(of(10, 0.1, 8), 8);  // but no more than agreed.
  EXPECT_EQ(of(0.1, 0.2, 1), 1);
  EXPECT_EQ(of(0, 0), 1);
}

TEST(LinkUseTest, FreshBatchesAreASixteenthOfAnEpoch) {
  EXPECT_EQ(FreshBatches(1), 1);
  EXPECT_EQ(FreshBatches(31), 1);
  EXPECT_EQ(FreshBatches(32), 2);
  EXPECT_EQ(FreshBatches(120), 7);
}

TEST(LinkUseTest, ABatchHasTheBytesOfItsNumbers) {
  EXPECT_EQ(BatchBytes(1024, 64, v1::FLOAT32), 262144);
  EXPECT_EQ(BatchBytes(1024, 64, v1::BFLOAT16), 131072);
  EXPECT_EQ(BatchBytes(1024, 64, v1::FLOAT16), 131072);
}

TEST(LinkUseTest, OneBatchInFlightWaitsForItsWholeTurn) { EXPECT_DOUBLE_EQ(IntervalMs(Link(40, 10), 3, 1), 63); }

TEST(LinkUseTest, SeveralShareATurnUntilTheLinkOrAPartyIsBusy) {
  EXPECT_DOUBLE_EQ(IntervalMs(Link(40, 10), 3, 3), 21);
  EXPECT_DOUBLE_EQ(IntervalMs(Link(40, 10), 3, 7), 10);
  EXPECT_DOUBLE_EQ(IntervalMs(Link(40, 10), 3, 64), 10);
  EXPECT_DOUBLE_EQ(IntervalMs(Link(40, 10), 25, 64), 25);
  EXPECT_DOUBLE_EQ(IntervalMs(Link(0, 0), 2, 1), 2);
}

// Nor is it more than that takes, but for the one that waits.
TEST(LinkUseTest, TheNumberChosenKeepsALinkBusyThroughEightMoreRoundTrips) {
  const double work_ms = absl::ToDoubleMilliseconds(kLeastBatchWork);
  for (const double round_trip_ms : {3.0, 10.0, 40.0, 200.0}) {
    for (const double batch_ms : {0.05, 0.9, 2.0, 7.7, 31.0, 250.0}) {
      const LinkFigures link = Link(round_trip_ms, batch_ms);
      const int64_t chosen = BatchesInFlight(link, 1000);
      const double busy = std::max(batch_ms, work_ms);
      EXPECT_DOUBLE_EQ(IntervalMs(link, work_ms, chosen), busy) << round_trip_ms << " " << batch_ms;
      EXPECT_GE(busy * static_cast<double>(chosen), 9 * round_trip_ms + 2 * batch_ms);
      EXPECT_LE(busy * static_cast<double>(chosen - 2), 9 * round_trip_ms + 2 * batch_ms);
    }
  }
}

}  // namespace
}  // namespace splitveil
