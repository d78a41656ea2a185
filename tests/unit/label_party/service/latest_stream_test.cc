// Which of two streams counts, whatever the order in which their messages are taken.
#include "label_party/service/latest_stream.h"

#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(LatestStreamTest, AnEarlierStreamDoesNotTakeThePlaceBack) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  LatestStream::Turn later(&latest, &later_context);
  EXPECT_FALSE(earlier.overtaken());
  ASSERT_TRUE(later.Accepted());
  EXPECT_TRUE(earlier.overtaken());
  EXPECT_FALSE(earlier.overtakes());
  EXPECT_FALSE(earlier.Accepted());
  EXPECT_FALSE(earlier.counts());
  EXPECT_TRUE(later.counts());
  EXPECT_TRUE(later.Accepted());
}

TEST(LatestStreamTest, AnEarlierStreamStaysOvertakenOnceTheLaterOneHasEnded) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  {
    LatestStream::Turn later(&latest, &later_context);
    ASSERT_TRUE(later.Accepted());
  }
  EXPECT_FALSE(earlier.Accepted());
  EXPECT_FALSE(earlier.counts());
}

TEST(LatestStreamTest, ALaterStreamOvertakesTheOneThatCounts) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  ASSERT_TRUE(earlier.Accepted());
  const LatestStream::Turn later(&latest, &later_context);
  EXPECT_TRUE(later.overtakes());
  EXPECT_FALSE(earlier.overtakes());
  EXPECT_TRUE(earlier.counts());
}

}  // namespace
}  // namespace splitveil
