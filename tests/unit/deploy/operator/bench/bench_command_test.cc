#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<nlohmann::json> Lines(const std::string& output) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(output, '\n', absl::SkipEmpty()))) {
    lines.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return lines;
}

TEST(BenchMarvellTest, TimesTheSolverAndThePerturbationOfEachShape) {
  const std::vector<nlohmann::json> lines = Lines(ExpectDone({"bench", "marvell", "--instances=50"}));
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[0]["bench"], "marvell_solve");
  EXPECT_EQ(lines[0]["instances"], 50);
  EXPECT_GT(lines[0]["mean_microseconds"].get<double>(), 0);
  EXPECT_GT(lines[0]["p99_microseconds"].get<double>(), 0);
  for (const size_t i : {1, 2, 3}) {
    EXPECT_EQ(lines[i]["bench"], "marvell_perturb");
    EXPECT_NEAR(lines[i]["ratio"].get<double>(),
                lines[i]["milliseconds"].get<double>() / lines[i]["noise_milliseconds"].get<double>(), 1e-9);
  }
  EXPECT_EQ(lines[3]["rows"], 128);
  EXPECT_EQ(lines[3]["columns"], 1600);
}

TEST(BenchMarvellTest, SolvesTheProblemsOfAFile) {
  TempFolder folder;
  // Classes without variance: all power along dg, alike for both: sum_kl = g / P, lambda1 = P.
  WriteText(folder.File("in.csv"), "d,u,v,g,p,P\n3,0,0,2,0.5,1\n3,0,0,2,0.5,4\n");
  const auto lines = Lines(ExpectDone({"bench", "marvell", "--problems=" + folder.File("in.csv")}));
  EXPECT_EQ(lines[0]["instances"], 2);
  EXPECT_NEAR(lines[0]["checksum"].get<double>(), 2. / 1 + 2. / 4 + 1 + 4, 1e-6);
}

TEST(BenchMarvellTest, FailsOnABadFileOrCount) {
  TempFolder folder;
  const std::string path = folder.File("in.csv");
  WriteText(path, "d,u,v,g,p,P\n3,0,0,2,7,1\n");
  EXPECT_THAT(ExpectError(2, {"bench", "marvell", "--problems=" + path}),
              StartsWith(path + ": line 2, column 9 (p): expected"));
  WriteText(path, "d,u,v,g,p,P\n");
  EXPECT_THAT(ExpectError(2, {"bench", "marvell", "--problems=" + path}), HasSubstr("expected at least one problem"));
  EXPECT_THAT(ExpectError(2, {"bench", "marvell", "--problems=/no/such.csv"}), HasSubstr("no such file"));
  EXPECT_THAT(ExpectError(2, {"bench", "marvell", "--instances=0"}), HasSubstr("--instances"));
}

TEST(BenchAlignmentTest, AlignsAndReportsItsRate) {
  const auto lines = Lines(ExpectDone({"bench", "alignment", "--ids=1000"}));
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0]["ids"], 1000);
  EXPECT_EQ(lines[0]["common_ids"], 900);
  EXPECT_NEAR(lines[0]["ids_per_second"].get<double>() * lines[0]["seconds"].get<double>(), 1000, 1e-6);
}

TEST(BenchAlignmentTest, FailsWithoutIds) {
  EXPECT_THAT(ExpectError(2, {"bench", "alignment", "--ids=0"}), HasSubstr("--ids"));
  EXPECT_THAT(ExpectError(2, {"bench", "alignment", "--ids=many"}), HasSubstr("many"));
}

}  // namespace
}  // namespace splitveil::testing
