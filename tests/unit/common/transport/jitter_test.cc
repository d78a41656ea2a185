#include "common/transport/jitter.h"

#include <gtest/gtest.h>
#include <set>

namespace splitveil {
namespace {

TEST(JitterTest, IsBetweenHalfOfAPauseAndAllOfIt) {
  std::set<absl::Duration> pauses;
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration pause = Jittered(absl::Seconds(2));
    EXPECT_GE(pause, absl::Seconds(1));
    EXPECT_LT(pause, absl::Seconds(2));
    pauses.insert(pause);
  }
  EXPECT_GT(pauses.size(), 100);  // Of 1000 that are as likely.
  EXPECT_EQ(Jittered(absl::ZeroDuration()), absl::ZeroDuration());
}

}  // namespace
}  // namespace splitveil
