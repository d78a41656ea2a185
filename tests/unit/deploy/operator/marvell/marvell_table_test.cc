#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

#include "deploy/operator/marvell/marvell_command.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

const char kHeader[] = "d,u,v,g,p,P\n";

absl::Status Solve(const std::string& text, std::string* result = nullptr) {
  std::istringstream in(text);
  std::ostringstream out;
  absl::Status status = SolveMarvellTable(in, out);
  if (result != nullptr) {
    *result = out.str();
  }
  return status;
}

TEST(MarvellTableTest, SolvesEachRowInOrder) {
  std::string result;
  ASSERT_TRUE(Solve(std::string(kHeader) + "128,0,0,1,0.5,4\n2,1,1,3,0.5,0\n", &result).ok());
  EXPECT_EQ(result,
            "lambda1_neg,lambda2_neg,lambda1_pos,lambda2_pos,sum_kl,auc_bound\n"
            "4,0,4,0,0.25,0.71875\n"
            "0,0,0,0,3,0.9910254037844386\n");
}

TEST(MarvellTableTest, WritesTheHeaderAloneForNoRows) {
  std::string result;
  ASSERT_TRUE(Solve(kHeader, &result).ok());
  EXPECT_EQ(result, "lambda1_neg,lambda2_neg,lambda1_pos,lambda2_pos,sum_kl,auc_bound\n");
}

TEST(MarvellTableTest, TakesCarriageReturnsAndALastLineWithoutItsEnd) {
  EXPECT_TRUE(Solve("d,u,v,g,p,P\r\n128,0,0,1,0.5,4\r\n128,0,0,1,0.5,4").ok());
}

TEST(MarvellTableTest, FailsForAnotherHeader) {
  EXPECT_EQ(Solve("u,d,v,g,p,P\n").message(), "line 1, column 1: expected the header d,u,v,g,p,P, found 'u,d,v,g,p,P'");
  EXPECT_EQ(Solve("").code(), absl::StatusCode::kInvalidArgument);
}

TEST(MarvellTableTest, NamesLineColumnAndFieldOfAMalformedNumber) {
  EXPECT_EQ(Solve(std::string(kHeader) + "128,0,0,1,0.5,4\n128,0,x,1,0.5,4\n").message(),
            "line 3, column 7 (v): expected a finite number >= 0, found 'x'");
}

TEST(MarvellTableTest, FailsForEachFieldOutOfRange) {
  for (const char* row : {"0,1,1,1,0.5,1", "1.5,1,1,1,0.5,1", "2,-1,1,1,0.5,1", "2,1,nan,1,0.5,1", "2,1,1,inf,0.5,1",
                          "2,1,1,1,1.5,1", "2,1,1,1,0.5,", "2,1,1,1,0.5,1e999"}) {
    const absl::Status status = Solve(std::string(kHeader) + row + "\n");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row;
    EXPECT_THAT(status.ToString(), HasSubstr("line 2, column ")) << row;
  }
}

TEST(MarvellTableTest, FailsForAnotherNumberOfFields) {
  EXPECT_THAT(Solve(std::string(kHeader) + "2,1,1,1,0.5\n").ToString(), HasSubstr("found '5 fields'"));
  EXPECT_FALSE(Solve(std::string(kHeader) + "2,1,1,1,0.5,1,9\n").ok());
  EXPECT_FALSE(Solve(std::string(kHeader) + "\n").ok());
}

TEST(MarvellTableTest, WritesNothingUnlessAllRowsAreSound) {
  std::string result;
  EXPECT_FALSE(Solve(std::string(kHeader) + "128,0,0,1,0.5,4\nx\n", &result).ok());
  EXPECT_EQ(result, "");
}

TEST(MarvellTableTest, FailsWhereTheResultCannotBeWritten) {
  std::istringstream in(kHeader);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(SolveMarvellTable(in, out).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace splitveil
