#include "common/process/version.h"

#include "gtest/gtest.h"

namespace splitveil {
namespace {

TEST(VersionTest, IsTheProjectsVersion) { EXPECT_STREQ(Version(), PROJECT_VERSION); }

}  // namespace
}  // namespace splitveil
