// How a run ends: the ledger's last word, and that the first end counts. Checkpoints, early stopping and export run in
// label_session_life_test.cc.
#include "label_party/session/run_lifecycle.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/process/exit_code.h"
#include "common/storage/sqlite_database.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using State = ProtocolState::State;
using End = RunLifecycle::End;

class RunLifecycleTest : public ::testing::Test {
 protected:
  RunLifecycleTest() : run_(64), path_(run_.files.File("ledger.db")) {}

  RunLifecycle Lifecycle() const {
    return {&run_.agreement, &run_.label_config, CheckpointPlan(), path_, [this] { return now_; }};
  }

  std::string Text(const char* sql) const {
    auto database = *SqliteDatabase::Open(path_, SqliteDatabase::Mode::kReadOnly);
    SqliteStatement statement = *database->Prepare(sql);
    return *statement.Next() ? statement.Text(0) : "";
  }

  SmallRun run_;
  SteadyTime now_;
  const std::string path_;
};

TEST_F(RunLifecycleTest, TheLedgerSaysHowItEnded) {
  struct Case {
    End end;
    absl::Status outcome;
    const char* name;
  };
  const Case cases[] = {{End::kCompleted, absl::OkStatus(), "completed"},
                        {End::kStopped, absl::OkStatus(), "stopped"},
                        {End::kFailed, absl::UnavailableError("gone"), "failed"},
                        {End::kFailed, AsHalt(absl::ResourceExhaustedError("spent")), "halted"}};
  for (const Case& c : cases) {
    RunLifecycle life = Lifecycle();
    ASSERT_TRUE(life.BeginLedger({c.name, "label_party", "", "", "{}"}).ok());
    EXPECT_FALSE(life.ended());
    EXPECT_FALSE(life.completed());
    life.EndRun(c.end, c.outcome);
    EXPECT_TRUE(life.ended());
    EXPECT_EQ(life.Finish(nullptr, nullptr, absl::OkStatus()), c.outcome);
    EXPECT_STREQ(life.end_name(), c.name);
    EXPECT_EQ(life.completed(), c.end == End::kCompleted);
    EXPECT_EQ(Text(("SELECT status FROM run WHERE run_id = '" + std::string(c.name) + "'").c_str()), c.name);
    EXPECT_EQ(
        Text(("SELECT detail FROM event WHERE kind = 'ended' AND run_id = '" + std::string(c.name) + "'").c_str()),
        std::string(c.outcome.message()));
  }
}

TEST_F(RunLifecycleTest, TheFirstEndCounts) {
  RunLifecycle life = Lifecycle();
  ASSERT_TRUE(life.BeginLedger({"run", "label_party", "", "", "{}"}).ok());
  life.EndRun(End::kFailed, absl::UnavailableError("first"));
  life.EndRun(End::kCompleted, absl::OkStatus());
  EXPECT_EQ(life.Finish(nullptr, nullptr, absl::OkStatus()).message(), "first");
  EXPECT_FALSE(life.completed());
}

TEST_F(RunLifecycleTest, ARunThatNeverOpenedLeavesNoLedger) {
  RunLifecycle life = Lifecycle();
  life.EndRun(End::kFailed, absl::FailedPreconditionError("refused"));
  EXPECT_EQ(life.Finish(nullptr, nullptr, absl::OkStatus()).message(), "refused");
  EXPECT_EQ(life.ledger(), nullptr);
}

TEST_F(RunLifecycleTest, SilenceIsMeasuredByTheStatesDeadline) {
  v1::Deadlines& deadlines = *run_.agreement.mutable_deadlines();
  deadlines.set_connect_seconds(120);
  deadlines.set_alignment_chunk_seconds(130);
  deadlines.set_step_seconds(10);
  deadlines.set_max_outage_seconds(0);
  RunLifecycle life = Lifecycle();
  for (const State state : {State::kWaiting, State::kOpened, State::kAligning, State::kAligned, State::kTraining}) {
    EXPECT_TRUE(life.CheckHeard(state).ok());
  }
  now_ += std::chrono::seconds(11);
  for (const State state : {State::kWaiting, State::kAligning, State::kAligned}) {
    EXPECT_TRUE(life.CheckHeard(state).ok());
  }
  for (const State state : {State::kOpened, State::kTraining}) {
    const absl::Status silence = life.CheckHeard(state);
    EXPECT_EQ(silence.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(silence.message()), HasSubstr("within 10s, found silence"));
  }
  now_ += std::chrono::seconds(110);
  EXPECT_FALSE(life.CheckHeard(State::kWaiting).ok());
  EXPECT_TRUE(life.CheckHeard(State::kAligning).ok());
  life.Heard();
  EXPECT_TRUE(life.CheckHeard(State::kTraining).ok());
}

TEST_F(RunLifecycleTest, APeerThatComesAndGoesForEverFillsNoDisk) {
  RunLifecycle life = Lifecycle();
  ASSERT_TRUE(life.BeginLedger({"run", "label_party", "", "", "{}"}).ok());
  for (int i = 0; i < 300; ++i) {
    life.ConnectionLost();
    life.Heard();
  }
  life.EndRun(End::kStopped, absl::OkStatus());
  EXPECT_TRUE(life.Finish(nullptr, nullptr, absl::OkStatus()).ok());
  EXPECT_EQ(Text("SELECT count(*) FROM event WHERE kind = 'interrupted'"), "101");
  EXPECT_EQ(Text("SELECT detail FROM event WHERE kind = 'interrupted' ORDER BY rowid DESC LIMIT 1"), "200 more");
}

}  // namespace
}  // namespace splitveil::testing
