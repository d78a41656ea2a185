#include "common/model/parameters.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class ParametersTest : public ::testing::Test {
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
class TrainingStateTest : public ::testing::Test {
 protected:
  void ExpectRefusedUnchanged(const NamedParameters& values) {
    EXPECT_EQ(AssignTrainingState(values, views_).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(table_, ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(bias_, ElementsAre(7));
  }

  std::vector<float> table_ = {1, 2, 3, 4, 5, 6};
  std::vector<float> bias_ = {7};
  std::vector<ParameterView> views_ = {{"table", {table_.data(), 3, 2, 2}}, {"bias", absl::MakeSpan(bias_)}};
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

// Three rows of a table's two values and one number that is remembered of each row, side by side.
class StridedRowsTest : public ::testing::Test {
 protected:
  void ExpectRefusedUnchanged(const NamedParameters& values) {
    EXPECT_EQ(AssignTrainingState(values, views_).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(memory_, ElementsAre(1, 2, 10, 3, 4, 20, 5, 6, 30));
  }

  std::vector<float> memory_ = {1, 2, 10, 3, 4, 20, 5, 6, 30};
  std::vector<ParameterView> views_ = {{"table", {memory_.data(), 3, 2, 3}},
                                       {"table.moment1", {memory_.data() + 2, 3, 1, 3}}};
};

TEST_F(StridedRowsTest, CopiesHaveNoGaps) {
  EXPECT_THAT(CopyParameters(views_), ElementsAre(Pair("table", ElementsAre(1, 2, 3, 4, 5, 6)),
                                                  Pair("table.moment1", ElementsAre(10, 20, 30))));
}

TEST_F(StridedRowsTest, AssignsToTheRowsOnly) {
  ASSERT_TRUE(AssignParameters({{"table", {9, 8, 7, 6, 5, 4}}}, absl::MakeSpan(views_).first(1)).ok());
  EXPECT_THAT(memory_, ElementsAre(9, 8, 10, 7, 6, 20, 5, 4, 30));
}

TEST_F(StridedRowsTest, ATableMayHaveGrown) {
  ASSERT_TRUE(
      AssignTrainingState({{"steps", {3, 0}}, {"table.moment1", {90, 80}}, {"table", {9, 8, 7, 6}}}, views_).ok());
  EXPECT_THAT(memory_, ElementsAre(9, 8, 90, 7, 6, 80, 5, 6, 30));
}

TEST_F(StridedRowsTest, RefusesNumbersOfTheGapsAndPartsOfRows) {
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", std::vector<float>(9)}, {"table.moment1", {90, 80}}});
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", {9, 8, 7}}, {"table.moment1", {90, 80}}});
  ExpectRefusedUnchanged({{"steps", {3, 0}}, {"table", {9, 8, 7, 6}}, {"table.moment1", std::vector<float>(4)}});
}

}  // namespace
}  // namespace splitveil
