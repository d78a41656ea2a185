#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kReference[] = "../shared/reference/marvell_optimum.csv";
constexpr char kTable[] = "d,u,v,g,p,P\n16,0.1,0.2,1,0.25,4\n3,0,0,2,0.5,1\n";
constexpr char kHeader[] = "lambda1_neg,lambda2_neg,lambda1_pos,lambda2_pos,sum_kl,auc_bound\n";

std::vector<std::vector<double>> Numbers(const std::string& table) {
  std::vector<std::vector<double>> rows;
  for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    rows.emplace_back();
    for (const absl::string_view cell : absl::StrSplit(line, ',')) {
      double number = 0;
      rows.back().push_back(absl::SimpleAtod(cell, &number) ? number : NAN);  // NaN: a column's name.
    }
  }
  return rows;
}

TEST(MarvellTest, SolvesFromStandardInputToStandardOutput) {
  const std::string out = ExpectDone({"marvell"}, kTable);
  EXPECT_THAT(out, StartsWith(kHeader));
  const auto rows = Numbers(out);
  ASSERT_THAT(rows, SizeIs(3));
  // Theorem 2's constraint binds: p tr(Sigma1) + (1 - p) tr(Sigma0) = P.
  EXPECT_NEAR(0.75 * (rows[1][0] + 15 * rows[1][1]) + 0.25 * (rows[1][2] + 15 * rows[1][3]), 4, 1e-9);
  // Classes without variance: all power lies along dg, alike for both, so that sum_kl = g / lambda1 = 2 / 1.
  EXPECT_THAT(rows[2], ElementsAre(DoubleNear(1, 1e-6), DoubleNear(0, 1e-6), DoubleNear(1, 1e-6), DoubleNear(0, 1e-6),
                                   DoubleNear(2, 1e-6), ::testing::_));
}

TEST(MarvellTest, SolvesFromFileToFile) {
  TempFolder folder;
  WriteText(folder.File("in.csv"), kTable);
  EXPECT_EQ(ExpectDone({"marvell", "--input=" + folder.File("in.csv"), "--out=" + folder.File("out.csv")}), "");
  EXPECT_EQ(ReadFile(folder.File("out.csv")).value(), ExpectDone({"marvell"}, kTable));
}

TEST(MarvellTest, AgreesWithTheExhaustiveSearch) {
  if (!std::filesystem::exists(kReference)) {
    GTEST_SKIP() << kReference << " is absent";
  }
  std::string table = "d,u,v,g,p,P\n";
  std::vector<double> expected;
  std::vector<std::string> lines = absl::StrSplit(ReadFile(kReference).value(), '\n', absl::SkipEmpty());
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i], ',');
    absl::StrAppend(&table, cells[1], ",", cells[2], ",", cells[3], ",", cells[4], ",", cells[5], ",", cells[6], "\n");
    expected.push_back(std::stod(cells[7]));
  }
  const auto rows = Numbers(ExpectDone({"marvell"}, table));
  ASSERT_EQ(rows.size(), expected.size() + 1);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(rows[i + 1][4], expected[i] * (1 + 1e-6) + 1e-12) << "line " << i + 2;
    EXPECT_GE(rows[i + 1][4], expected[i] * (1 - 1e-4) - 1e-12) << "line " << i + 2;
  }
}

TEST(MarvellTest, NamesTheFileAndPlaceOfABadCell) {
  TempFolder folder;
  const std::string path = folder.File("in.csv");
  WriteText(path, "d,u,v,g,p,P\n16,0.1,0.2,1,0.25,4\n16,0.1,abc,1,0.25,4\n");
  EXPECT_THAT(ExpectError(2, {"marvell", "--input=" + path}), StartsWith(path + ": line 3, column 8 (v): expected"));
  EXPECT_THAT(ExpectError(2, {"marvell"}, "d,u,v,g,p,P\n0,1,1,1,0.5,1\n"),
              StartsWith("standard input: line 2, column 1 (d): expected"));
}

TEST(MarvellTest, FailsOnAnotherHeader) {
  EXPECT_THAT(ExpectError(2, {"marvell"}, "u,v\n1,2\n"), HasSubstr("line 1"));
  EXPECT_THAT(ExpectError(2, {"marvell"}, ""), HasSubstr("standard input: "));
}

TEST(MarvellTest, FailsWithoutItsInput) {
  EXPECT_EQ(ExpectError(2, {"marvell", "--input=/no/such.csv"}), "/no/such.csv: no such file\n");
  EXPECT_THAT(ExpectError(2, {"marvell", "--input=/tmp"}), HasSubstr("Is a directory"));
}

TEST(MarvellTest, FailsWhereItCannotWriteAndOnBadRowsWritesNothing) {
  TempFolder folder;
  EXPECT_THAT(ExpectError(2, {"marvell", "--out=" + folder.File("none/out.csv")}, kTable), HasSubstr("none/out.csv"));
  ExpectError(2, {"marvell", "--out=" + folder.File("out.csv")}, std::string(kTable) + "1,2\n");
  EXPECT_FALSE(std::filesystem::exists(folder.File("out.csv")));
}

TEST(MarvellBudgetTest, PlansTheNoiseOfEachEpochWithinTheBudget) {
  const std::string out = ExpectDone({"marvell", "--epochs=5", "--max_run_auc_bound=0.7"});
  EXPECT_THAT(out, StartsWith("epoch,sum_kl,s,run_auc_bound\n"));
  const auto rows = Numbers(out);
  ASSERT_THAT(rows, SizeIs(6));
  // 94% of K = 2 Phi^-1(0.7)^2 with the quantile 0.5244005127 of the tables; five equal shares, s = 1 / share.
  const double share = 0.94 * 2 * 0.5244005127 * 0.5244005127 / 5;
  for (int e = 1; e <= 5; ++e) {
    const double auc = 0.5 * std::erfc(-std::sqrt(e * share) / 2);
    EXPECT_THAT(rows[e], ElementsAre(e, DoubleNear(share, 1e-7), DoubleNear(1 / share, 1e-5), DoubleNear(auc, 1e-7)));
  }
  EXPECT_LE(rows[5][3], 0.7);
}

TEST(MarvellBudgetTest, GrowsTheNoiseFromEpochToEpoch) {
  const auto rows =
      Numbers(ExpectDone({"marvell", "--epochs=4", "--max_run_auc_bound=0.8", "--noise_growth_per_epoch=1.5"}));
  ASSERT_THAT(rows, SizeIs(5));
  for (int e = 2; e <= 4; ++e) {
    EXPECT_NEAR(rows[e][2] / rows[e - 1][2], 1.5, 1e-6);
  }
  // Phi(sqrt(0.94) Phi^-1(0.8)), but for sums that are floats, rounded up.
  EXPECT_NEAR(rows[4][3], 0.5 * std::erfc(-std::sqrt(0.94) * 0.8416212336 / std::sqrt(2.0)), 1e-7);
}

TEST(MarvellBudgetTest, WritesToAFile) {
  TempFolder folder;
  const std::string path = folder.File("plan.csv");
  EXPECT_EQ(ExpectDone({"marvell", "--epochs=2", "--max_run_auc_bound=0.6", "--out=" + path}), "");
  EXPECT_EQ(ReadFile(path).value(), ExpectDone({"marvell", "--epochs=2", "--max_run_auc_bound=0.6"}));
}

TEST(MarvellBudgetTest, NoRunIsAllowedMoreThanItsBudget) {
  for (const double budget : {0.51, 0.55, 0.6, 0.7, 0.8, 0.9, 0.99}) {
    for (const char* epochs : {"1", "3", "10", "200"}) {
      const auto plan = Numbers(
          ExpectDone({"marvell", absl::StrCat("--epochs=", epochs), absl::StrCat("--max_run_auc_bound=", budget)}));
      ASSERT_THAT(plan.back(), SizeIs(4));
      EXPECT_LE(plan.back()[3], budget + 1e-9) << epochs << " epochs";
      EXPECT_GT(plan.back()[3], 0.5);
    }
  }
}

TEST(MarvellBudgetTest, FailsWithHalfABudgetOrBesideATable) {
  for (const std::string flag : {"--epochs=5", "--max_run_auc_bound=0.7", "--noise_growth_per_epoch=2"}) {
    EXPECT_THAT(ExpectError(2, {"marvell", flag}), HasSubstr("--epochs and --max_run_auc_bound together")) << flag;
  }
  EXPECT_EQ(ExpectError(2, {"marvell", "--epochs=5"}),
            "command line: expected --epochs and --max_run_auc_bound together, found --epochs alone\n");
  EXPECT_THAT(ExpectError(2, {"marvell", "--max_run_auc_bound=0.7"}), HasSubstr("found --max_run_auc_bound alone"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--noise_growth_per_epoch=2"}), HasSubstr("found neither"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=5", "--max_run_auc_bound=0.7", "--input=in.csv"}),
              HasSubstr("without --input"));
}

TEST(MarvellBudgetTest, NamesTheFlagThatIsOutOfRange) {
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=0", "--max_run_auc_bound=0.7"}), HasSubstr("epochs"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=x", "--max_run_auc_bound=0.7"}), HasSubstr("epochs"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=5", "--max_run_auc_bound=1.2"}), HasSubstr("max_run_auc_bound"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=5", "--max_run_auc_bound=0.5"}), HasSubstr("max_run_auc_bound"));
  EXPECT_THAT(ExpectError(2, {"marvell", "--epochs=9", "--max_run_auc_bound=0.7", "--noise_growth_per_epoch=50"}),
              HasSubstr("noise_growth_per_epoch"));
}

}  // namespace
}  // namespace splitveil::testing
