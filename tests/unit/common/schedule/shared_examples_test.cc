#include "common/schedule/shared_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

TEST(SharedExamplesTest, AsManyAsTheSmallestBatchAreEnough) {
  EXPECT_TRUE(CheckSharedExamples({16, 100, 200}, 16).ok());
  const absl::Status status = CheckSharedExamples({15, 100, 200}, 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("minimum_batch_size = 16 shared examples, found 15 of 100 own ids and 200 of the "
                                   "peer's"));
}

}  // namespace
}  // namespace splitveil
