// A run that was interrupted goes on in its ledger: what is recorded again is there once.
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/ledger/ledger.h"
#include "common/storage/sqlite_database.h"
#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

class ContinuedRunTest : public LedgerFileTest {
 protected:
  // Steps [first, first + 4), which are an epoch.
  static void RecordEpoch(int64_t epoch, Ledger& ledger) {
    for (int64_t step = 4 * epoch; step < 4 * epoch + 4; ++step) {
      ASSERT_TRUE(ledger.Record(StepRow{step, epoch, step % 4, 8, 0.5}).ok());
      ASSERT_TRUE(ledger.Record(StepTimeRow{step}).ok());
      ASSERT_TRUE(ledger.Record(LeakRow{step, "label_party", "cut", "norm", 0.5, 8}).ok());
    }
    ASSERT_TRUE(ledger.Record(EvaluationRow{4 * epoch + 4, "test"}).ok());
    ASSERT_TRUE(ledger.Record(DistributionRow{epoch, "norm"}).ok());
    ASSERT_TRUE(ledger.Record(AttributeLeakRow{epoch, "basic", "sex", "test"}).ok());
    for (const char* const observer : {"label_party", "nonlabel_party"}) {
      EpochLeakRow row;
      row.epoch = epoch;
      row.observer = observer;
      ASSERT_TRUE(ledger.Record(row).ok());
    }
  }

  std::string Rows() const {
    return Sql(
        "SELECT (SELECT group_concat(step) FROM step), (SELECT count(*) FROM step_time), (SELECT count(*) FROM leak), "
        "(SELECT group_concat(step) FROM evaluation), (SELECT group_concat(epoch) FROM distribution), "
        "(SELECT group_concat(observer || epoch) FROM epoch_leak)");
  }
};

TEST_F(ContinuedRunTest, RowsBeyondTheCheckpointAreRecordedAgain) {
  v1::LedgerPosition position;
  {
    const std::unique_ptr<Ledger> ledger = Open("run-1");
    RecordEpoch(0, *ledger);
    const absl::StatusOr<int64_t> last_event = ledger->LastEvent();
    ASSERT_TRUE(last_event.ok());
    position.set_steps(4);
    position.set_own_epochs(1);
    position.set_peer_epochs(0);  // Of the first epoch scores might still have come.
    position.set_last_event(*last_event);
    for (const char* const kind : {"gate_warn", "interrupted", "refused", "disclosed", "unproved_answers"}) {
      ASSERT_TRUE(ledger->RecordEvent(kind, "after the checkpoint").ok());
    }
    ASSERT_TRUE(ledger->Record(AllRunsRow{"account", 8, 0.5}).ok());
    RecordEpoch(1, *ledger);
    ASSERT_TRUE(ledger->Finish("failed").ok());
  }
  const std::string expected = Rows();
  ASSERT_EQ(Sql("SELECT group_concat(epoch) FROM attribute_leak"), "0,1");
  const std::unique_ptr<Ledger> ledger = *Ledger::Continue(path_, Run("run-1"), position);
  EXPECT_EQ(Rows(), "0,1,2,3|4|4|4|0|label_party0");
  EXPECT_EQ(Sql("SELECT status, finished_at FROM run"), "running|NULL");
  EXPECT_EQ(Sql("SELECT group_concat(epoch) FROM attribute_leak"), "0");
  EXPECT_EQ(Sql("SELECT group_concat(kind) FROM event"), "interrupted,refused,disclosed,unproved_answers");
  // What the run was counted at remains until it is written again: it may end before.
  EXPECT_EQ(Sql("SELECT count(*) FROM all_runs WHERE auc_bound = 0.5"), "1");
  EXPECT_TRUE(ledger->Record(AllRunsRow{"account", 8, 0.6}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  EXPECT_EQ(Sql("SELECT group_concat(auc_bound) FROM all_runs"), "0.6");
  EpochLeakRow late;
  late.observer = "nonlabel_party";
  ASSERT_TRUE(ledger->Record(late).ok());
  RecordEpoch(1, *ledger);
  ASSERT_TRUE(ledger->Finish("completed").ok());
  EXPECT_EQ(Rows(), expected);
}

TEST_F(ContinuedRunTest, TheLeastLimitThatItEverHadHolds) {
  RunRow run = Run("run-1");
  run.max_lifetime_auc_bound = 0.7;
  ASSERT_TRUE((*Ledger::Create(path_, run))->Finish("failed").ok());
  for (const auto& [limit, expected] : {std::pair(0.65, "0.65"), std::pair(0.8, "0.65"), std::pair(1.0, "0.65")}) {
    run.max_lifetime_auc_bound = limit;
    ASSERT_TRUE((*Ledger::Continue(path_, run, v1::LedgerPosition()))->Finish("failed").ok());
    EXPECT_EQ(Sql("SELECT max_lifetime_auc_bound FROM run"), expected);
  }
}

// To read first and then begin to write fails at once where another has written in between.
TEST_F(ContinuedRunTest, GoesOnWhileAnotherRunWrites) {
  Open("run-1").reset();
  Open("run-2").reset();
  std::atomic<bool> over = false;
  std::thread writer([&] {
    auto other = *SqliteDatabase::Open(path_, SqliteDatabase::Mode::kCreate);
    while (!over) {
      EXPECT_TRUE(other->Execute("INSERT INTO event VALUES ('run-2', '', 'written', '')").ok());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int i = 0; i < 60; ++i) {
    const auto ledger = Ledger::Continue(path_, Run("run-1"), v1::LedgerPosition());
    EXPECT_TRUE(ledger.ok()) << ledger.status();
  }
  over = true;
  writer.join();
}

TEST_F(ContinuedRunTest, OtherRunsOfTheLedgerStay) {
  {
    const std::unique_ptr<Ledger> other = Open("run-0");
    RecordEpoch(0, *other);
    ASSERT_TRUE(other->RecordEvent("gate_warn", "").ok());
    ASSERT_TRUE(other->Finish("completed").ok());
  }
  Open("run-1").reset();
  ASSERT_TRUE(Ledger::Continue(path_, Run("run-1"), v1::LedgerPosition()).ok());
  EXPECT_EQ(Rows(), "0,1,2,3|4|4|4|0|label_party0,nonlabel_party0");
  EXPECT_EQ(Sql("SELECT count(*) FROM event"), "1");
  EXPECT_EQ(Sql("SELECT status FROM run WHERE run_id = 'run-0'"), "completed");
}

TEST_F(ContinuedRunTest, EventsOfARunAreCountedOverAllItsParts) {
  ASSERT_TRUE(Open("run-0")->RecordEvent("refused", "Train").ok());
  for (const char* const detail : {"Train", "Close"}) {
    const std::unique_ptr<Ledger> ledger =
        std::string(detail) == "Train" ? Open("run-1") : *Ledger::Continue(path_, Run("run-1"), v1::LedgerPosition());
    ASSERT_TRUE(ledger->RecordEvent("refused", detail).ok());
    EXPECT_EQ(*ledger->CountEventsOfRun("refused", detail), 1);
  }
  const std::unique_ptr<Ledger> ledger = *Ledger::Continue(path_, Run("run-1"), v1::LedgerPosition());
  EXPECT_EQ(*ledger->CountEventsOfRun("refused"), 2);
  EXPECT_EQ(*ledger->CountEventsOfRun("interrupted"), 0);
}

// What it sent before, and when it was counted, stands in another one.
TEST_F(ContinuedRunTest, ALedgerThatDoesNotKnowTheRunIsRefused) {
  const absl::Status unknown = Ledger::Continue(path_, Run("run-1"), v1::LedgerPosition()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
  EXPECT_THAT(std::string(unknown.message()), ::testing::HasSubstr("found none of it: restore the ledger_path"));
  EXPECT_EQ(Sql("SELECT count(*) FROM run"), "0");
}

// Somebody has removed it, or put back an older copy: a run that ends in it would look whole.
TEST_F(ContinuedRunTest, ALedgerThatLacksStepsIsRefused) {
  v1::LedgerPosition position;
  position.set_steps(5);
  const absl::Status removed = Ledger::Continue(path_, Run("run-1"), position).status();
  EXPECT_TRUE(absl::IsInvalidArgument(removed)) << removed;
  EXPECT_THAT(std::string(removed.message()), ::testing::StartsWith(path_ + ": expected the ledger of run \"run-1\""));
  RecordEpoch(0, *Open("run-1"));
  RecordEpoch(1, *Open("run-0"));
  const absl::Status older = Ledger::Continue(path_, Run("run-1"), position).status();
  EXPECT_TRUE(absl::IsInvalidArgument(older)) << older;
  EXPECT_THAT(std::string(older.message()), ::testing::HasSubstr("found it up to step 4"));
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "8");
  position.set_steps(4);
  EXPECT_TRUE(Ledger::Continue(path_, Run("run-1"), position).ok());
}

}  // namespace
}  // namespace splitveil
