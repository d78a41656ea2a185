#include "common/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ParametersTest : public testing::Test {
 protected:
  void ExpectRefusedUnchanged(const NamedParameters& values) {
    EXPECT_EQ(AssignParameters(values, views_).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(weight_, ElementsAre(1, 2, 3));
    EXPECT_THAT(bias_, ElementsAre(4));
  }

  std::vector<float> weight_ = {1, 2, 3};
  std::vector<float> bias_ = {4};
  std::vector<ParameterView> views_ = {{"weight", absl::MakeSpan(weight_)}, {"bias", absl::MakeSpan(bias_)}};
};

TEST_F(ParametersTest, CopiesEveryParameterUnderItsName) {
  EXPECT_THAT(CopyParameters(views_), ElementsAre(Pair("weight", ElementsAre(1, 2, 3)), Pair("bias", ElementsAre(4))));
}

TEST_F(ParametersTest, AssignsInAnyOrder) {
  ASSERT_TRUE(AssignParameters({{"bias", {9}}, {"weight", {6, 7, 8}}}, views_).ok());
  EXPECT_THAT(weight_, ElementsAre(6, 7, 8));
  EXPECT_THAT(bias_, ElementsAre(9));
}

TEST_F(ParametersTest, RefusesAMissingName) { ExpectRefusedUnchanged({{"weight", {6, 7, 8}}}); }
TEST_F(ParametersTest, RefusesAnUnknownName) { ExpectRefusedUnchanged({{"weight", {6, 7, 8}}, {"offset", {9}}}); }
TEST_F(ParametersTest, RefusesARepeatedName) {
  ExpectRefusedUnchanged({{"weight", {6, 7, 8}}, {"bias", {9}}, {"bias", {9}}});
}
TEST_F(ParametersTest, RefusesAnotherSizeBeforeAnythingIsWritten) {
  ExpectRefusedUnchanged({{"weight", {6, 7, 8}}, {"bias", {9, 10}}});
}

}  // namespace
}  // namespace splitveil
