#include "deploy/operator/local_run/run_progress.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "deploy/operator/local_run/two_party_run.h"

namespace splitveil {
namespace {

TEST(TimeLeftTest, IsInTheUnitAPersonWants) {
  EXPECT_EQ(TimeLeft(absl::Seconds(28), 1, 0), "");
  EXPECT_EQ(TimeLeft(absl::Seconds(28), 2, 3), "about 42 s left");
  EXPECT_EQ(TimeLeft(absl::Seconds(28), 1, 37), "about 17 min left");
  EXPECT_EQ(TimeLeft(absl::Minutes(10), 2, 30), "about 2.5 h left");
}

TEST(ListeningPortTest, IsReadFromAWholeLineOnly) {
  EXPECT_EQ(ListeningPort("x INFO reads\ny INFO label party listens on port 40123\nz"), 40123);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port 401"), 0);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port many\n"), 0);
  EXPECT_EQ(ListeningPort(""), 0);
}

}  // namespace
}  // namespace splitveil
