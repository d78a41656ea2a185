// The non-label party alone is killed and started again; the label party, still there, takes the run up.
#include <csignal>
#include <gtest/gtest.h>

#include "common/storage/sqlite_database.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

void ExpectTakenUp(InterruptedRun& run) {
  const SteadyTime deadline = SteadyAfter(absl::Seconds(60));
  while (SteadyNow() < deadline && !(run.run.label->HasEnded() && run.run.nonlabel->HasEnded())) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(run.run.label->Wait(), 0) << run.run.label->Errors();
  EXPECT_EQ(run.run.nonlabel->Wait(), 0) << run.run.nonlabel->Errors();
}

// Control.
TEST(TakenUpRunTest, WithinItsTraining) {
  InterruptedRun run(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(40); });
  run.StartWithFreshRandomness();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.run.nonlabel->Signal(SIGKILL);
  (void)run.run.nonlabel->Wait();
  run.RestartNonLabelParty();
  ExpectTakenUp(run);
}

// `restart` is said once, for an older run, and stays in the file.
TEST(TakenUpRunTest, WithinItsTrainingAlsoIfItWasToldToRestart) {
  InterruptedRun run(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(40); });
  run.run.label_config.mutable_party()->set_restart(true);
  run.StartWithFreshRandomness();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.run.nonlabel->Signal(SIGKILL);
  (void)run.run.nonlabel->Wait();
  run.RestartNonLabelParty();
  ExpectTakenUp(run);
}

// A run that is complete is not continued: the same commands begin another one.
TEST(TakenUpRunTest, ACompleteRunIsNotTakenUp) {
  InterruptedRun run(1);
  run.StartWithFreshRandomness();
  ExpectTakenUp(run);
  run.StartWithFreshRandomness();
  ExpectTakenUp(run);
  EXPECT_EQ(run.Label("SELECT count(*) FROM run"), "2");
  EXPECT_EQ(run.Label("SELECT count(*) FROM event WHERE kind = 'continued'"), "0");
}

// A kill between the first page of a ledger and its tables.
TEST(TakenUpRunTest, ALedgerWithoutTablesIsANewOne) {
  InterruptedRun run(1);
  {
    auto database = SqliteDatabase::Open(run.run.ledger("nonlabel_party"), SqliteDatabase::Mode::kCreate);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE((*database)->QueryText("PRAGMA journal_mode = WAL").ok());
  }
  run.StartWithFreshRandomness();
  ExpectTakenUp(run);
}

}  // namespace
}  // namespace splitveil::testing
