#include "common/model/parameters.h"

#include <cmath>
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

// A table of rows of two beside a parameter of a fixed size.
class TrainingStateTest : public testing::Test {
 protected:
  void ExpectRefusedUnchanged(const NamedParameters& values) {
    EXPECT_EQ(AssignTrainingState(values, views_).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(table_, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(bias_, ElementsAre(7));
  }

  std::vector<float> table_ = {1, 2, 3, 4, 5, 6};
  std::vector<float> bias_ = {7};
  std::vector<ParameterView> views_ = {{"table", absl::MakeSpan(table_), 2}, {"bias", absl::MakeSpan(bias_)}};
};

TEST_F(TrainingStateTest, ComesBackWithItsSteps) {
  for (const int64_t steps : {int64_t{0}, int64_t{20'000}, int64_t{123'456'789'012}}) {
    const NamedParameters state = CopyTrainingState(views_, steps);
    EXPECT_EQ(*AssignTrainingState(state, views_), steps);
  }
}

TEST_F(TrainingStateTest, ATableMayHaveGrown) {
  ASSERT_TRUE(AssignTrainingState({{"steps", {3, 0}}, {"table", {9, 8}}, {"bias", {6}}}, views_).ok());
  EXPECT_THAT(table_, ElementsAre(9, 8, 3, 4, 5, 6));
}

TEST_F(TrainingStateTest, RefusesTablesOfMoreOrOfPartsOfRows) {
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", {9, 8, 7}}, {"bias", {6}}});
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", std::vector<float>(8)}, {"bias", {6}}});
}

TEST_F(TrainingStateTest, RefusesFewerNumbersOfAFixedSize) {
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", {9, 8}}, {"bias", {}}});
}

TEST_F(TrainingStateTest, RefusesStepsThatAreNoCount) {
  for (const std::vector<float>& steps :
       std::vector<std::vector<float>>{{}, {1}, {-1, 0}, {0.5, 0}, {0, NAN}, {2e7, 0}}) {
    ExpectRefusedUnchanged({{"steps", steps}, {"table", {9, 8}}, {"bias", {6}}});
  }
  ExpectRefusedUnchanged({{"table", {9, 8}}, {"bias", {6}}});
}

TEST_F(TrainingStateTest, RefusesNamesOfAnotherOptimizer) {
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", {9, 8}}, {"bias", {6}}, {"bias.moment1", {6}}});
}

}  // namespace
}  // namespace splitveil
