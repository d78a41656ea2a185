#include "common/process/usual_wait.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

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
