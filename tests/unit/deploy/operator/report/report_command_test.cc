#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"
#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

TEST(ReportCommandTest, WritesOnePageOfSeveralLedgers) {
  TempFolder folder;
  PlausibleRun first, second;
  first.run_id = "run-first";
  second.run_id = "run-second";
  first.steps_per_epoch = second.steps_per_epoch = 5;
  ASSERT_TRUE(WriteLabelPartyLedger(folder.File("a.db"), first).ok());
  ASSERT_TRUE(WriteLabelPartyLedger(folder.File("b.db"), second).ok());
  const std::string page = folder.File("report.html");
  EXPECT_EQ(
      ExpectDone({"report", "--ledger=" + folder.File("a.db"), "--ledger=" + folder.File("b.db"), "--out=" + page}),
      page + "\n");
  const std::string html = ReadFile(page).value();
  EXPECT_THAT(html, HasSubstr("run-first"));
  EXPECT_THAT(html, HasSubstr("run-second"));
}

TEST(ReportCommandTest, FailsWithoutALedger) {
  EXPECT_THAT(ExpectError(2, {"report", "--out=x.html"}), HasSubstr("expected --ledger, found none"));
}

TEST(ReportCommandTest, FailsOnAMissingLedgerAndMakesNone) {
  TempFolder folder;
  EXPECT_THAT(ExpectError(2, {"report", "--ledger=" + folder.File("none.db"), "--out=" + folder.File("r.html")}),
              HasSubstr(folder.File("none.db")));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ReportCommandTest, FailsOnAFileThatIsNoLedgerAndWritesNoPage) {
  TempFolder folder;
  WriteText(folder.File("notes.txt"), "not a ledger");
  EXPECT_THAT(ExpectError(2, {"report", "--ledger=" + folder.File("notes.txt"), "--out=" + folder.File("r.html")}),
              HasSubstr(folder.File("notes.txt")));
  EXPECT_FALSE(std::filesystem::exists(folder.File("r.html")));
}

TEST(ReportCommandTest, ReplacesNothingButAPage) {
  TempFolder folder;
  PlausibleRun run;
  run.steps_per_epoch = 5;
  const std::string ledger = folder.File("a.db"), page = folder.File("r.html");
  ASSERT_TRUE(WriteLabelPartyLedger(ledger, run).ok());
  EXPECT_THAT(ExpectError(2, {"report", "--ledger=" + ledger, "--out=" + ledger}), HasSubstr("it stays"));
  ExpectDone({"report", "--ledger=" + ledger, "--out=" + page});
  ExpectDone({"report", "--ledger=" + ledger, "--out=" + page});
}

TEST(ReportCommandTest, FailsWhereItCannotWrite) {
  TempFolder folder;
  PlausibleRun run;
  run.steps_per_epoch = 5;
  ASSERT_TRUE(WriteLabelPartyLedger(folder.File("a.db"), run).ok());
  EXPECT_THAT(ExpectError(2, {"report", "--ledger=" + folder.File("a.db"), "--out=" + folder.File("none/r.html")}),
              HasSubstr("none"));
}

}  // namespace
}  // namespace splitveil::testing
