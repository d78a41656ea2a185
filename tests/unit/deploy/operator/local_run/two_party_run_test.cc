#include "deploy/operator/local_run/two_party_run.h"

#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(ListeningPortTest, IsReadFromAWholeLineOnly) {
  EXPECT_EQ(ListeningPort("x INFO reads\ny INFO label party listens on port 40123\nz"), 40123);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port 401"), 0);
  EXPECT_EQ(ListeningPort("y INFO label party listens on port many\n"), 0);
  EXPECT_EQ(ListeningPort(""), 0);
}

}  // namespace
}  // namespace splitveil
