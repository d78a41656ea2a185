// The ledger's last word. Checkpoints, early stopping and export run in label_session_life_test.cc.
#include <gtest/gtest.h>
#include <string>

#include "common/process/exit_code.h"
#include "common/storage/sqlite_database.h"
#include "label_party/session/run.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using Cause = RunEnd::Cause;

// A run without training, from its ledger on.
class LedgerOnlyRun : public Run {
 public:
  LedgerOnlyRun(const RunContext& context, const std::string& ledger_path)
      : Run(context, CheckpointPlan(), ledger_path, SteadyNow) {}

  void Begin(const std::string& run_id) {
    ASSERT_TRUE(records.Begin({run_id, "label_party", "", "", "{}"}).ok());
    presence.RecordIn(records.ledger());
  }

  RunClosing closing{nullptr, this};
};

class RunClosingTest : public ::testing::Test {
 protected:
  RunClosingTest()
      : run_(64),
        status_("label_party"),
        context_{run_.agreement, run_.label_config, run_.LabelDataset(), nullptr, &status_, ""},
        path_(run_.files.File("ledger.db")) {}

  std::string Text(const std::string& sql) const {
    auto database = *SqliteDatabase::Open(path_, SqliteDatabase::Mode::kReadOnly);
    SqliteStatement statement = *database->Prepare(sql.c_str());
    return *statement.Next() ? statement.Text(0) : "";
  }

  SmallRun run_;
  RunStatus status_;
  const RunContext context_;
  const std::string path_;
};

TEST_F(RunClosingTest, TheLedgerSaysHowTheRunEnded) {
  struct Case {
    Cause cause;
    absl::Status why;
    std::string name;
  };
  const Case cases[] = {{Cause::kCompleted, absl::OkStatus(), "completed"},
                        {Cause::kStopped, absl::CancelledError("stop"), "stopped"},
                        {Cause::kPeer, absl::UnavailableError("gone"), "failed"},
                        {Cause::kOwnFailure, AsHalt(absl::ResourceExhaustedError("spent")), "halted"}};
  for (const Case& c : cases) {
    LedgerOnlyRun run(context_, path_);
    run.Begin(c.name);
    run.end.End(c.cause, c.why).IgnoreError();
    EXPECT_EQ(run.closing.Finish(nullptr), c.why);
    EXPECT_EQ(run.closing.Finish(nullptr), c.why);  // Once more: nothing is done twice.
    EXPECT_EQ(Text("SELECT status FROM run WHERE run_id = '" + c.name + "'"), c.name);
    EXPECT_EQ(Text("SELECT group_concat(detail) FROM event WHERE kind = 'ended' AND run_id = '" + c.name + "'"),
              std::string(c.why.message()));
    EXPECT_EQ(status_.Snapshot().phase(), "closed");
  }
}

TEST_F(RunClosingTest, ARunThatNeverOpenedLeavesNoLedger) {
  LedgerOnlyRun run(context_, path_);
  run.end.End(Cause::kRefused, absl::FailedPreconditionError("refused")).IgnoreError();
  EXPECT_EQ(run.closing.Finish(nullptr).message(), "refused");
  EXPECT_EQ(run.records.ledger(), nullptr);
}

TEST_F(RunClosingTest, APeerThatComesAndGoesForEverFillsNoDisk) {
  LedgerOnlyRun run(context_, path_);
  run.Begin("run");
  for (int i = 0; i < 300; ++i) {
    run.presence.ConnectionLost();
    run.presence.Heard();
  }
  run.end.End(Cause::kCompleted, absl::OkStatus()).IgnoreError();
  EXPECT_TRUE(run.closing.Finish(nullptr).ok());
  EXPECT_EQ(Text("SELECT count(*) FROM event WHERE kind = 'interrupted'"), "101");
  EXPECT_EQ(Text("SELECT detail FROM event WHERE kind = 'interrupted' ORDER BY rowid DESC LIMIT 1"), "200 more");
}

}  // namespace
}  // namespace splitveil::testing
