// What each training step leaves in the ledger, once.
#include "nonlabel_party/session/nonlabel_step_recorder.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "tests/testing/process/temp_folder.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

class NonLabelStepRecorderTest : public ::testing::Test {
 protected:
  NonLabelStepRecorderTest() {
    RunRow run;
    run.run_id = "run-1";
    run.role = "nonlabel_party";
    absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Create(files_.File("ledger.db"), run);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    recorder_ = std::make_unique<NonLabelStepRecorder>(ledger_.get(), &status_, /*epochs=*/2, /*batches_per_epoch=*/3);
  }

  std::string Sql(const std::string& query) {
    EXPECT_TRUE(ledger_->Commit().ok());
    return LedgerValue(files_.File("ledger.db"), query);
  }

  const TempFolder files_;
  RunStatus status_{"nonlabel_party"};
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<NonLabelStepRecorder> recorder_;
};

TEST_F(NonLabelStepRecorderTest, RecordsABatchOnceItIsLearnt) {
  recorder_->Begin(0, 0, 64, 100);
  recorder_->AddReceived(30);
  recorder_->AddReceived(40);
  EXPECT_FALSE(recorder_->due());
  ASSERT_TRUE(recorder_->Record("").ok());
  EXPECT_EQ(Sql("SELECT count(*) FROM step"), "0");

  recorder_->Learnt();
  EXPECT_TRUE(recorder_->due());
  ASSERT_TRUE(recorder_->Record("").ok());
  ASSERT_TRUE(recorder_->Record("").ok());  // Nothing is due any more.
  EXPECT_EQ(
      Sql("SELECT group_concat(step || ' ' || epoch || ' ' || batch || ' ' || examples || ' ' || bytes_sent || ' ' "
          "|| bytes_received) FROM step"),
      "0 0 0 64 100 70");
  EXPECT_EQ(Sql("SELECT count(*) FROM step WHERE loss IS NULL"), "1");
  EXPECT_EQ(Sql("SELECT count(*) FROM step_time"), "1");
}

TEST_F(NonLabelStepRecorderTest, TellsTheStatusHowLongBatchesWereUnderWay) {
  for (const double seconds : {0.5, 0.25}) {
    recorder_->Begin(0, 0, 64, 100);
    recorder_->AddTurn(seconds);
    recorder_->Learnt();
    ASSERT_TRUE(recorder_->Record("").ok());
  }
  EXPECT_EQ(status_.Snapshot().turn_seconds(), 0.75);
}

TEST_F(NonLabelStepRecorderTest, RecordsWhatTheProtectionDid) {
  ProtectionStep protection;
  protection.attributes = {{"sex", 0.125, 0.5}, {"age", 0.25, -1}};
  protection.utility_weight = 0.75;
  protection.threshold = 0.25;
  protection.correction_steps = 2;
  recorder_->Begin(0, 0, 64, 100);
  recorder_->SetProtection(protection);
  recorder_->Learnt();
  ASSERT_TRUE(recorder_->Record("").ok());
  EXPECT_EQ(
      Sql("SELECT group_concat(step || ' ' || attribute || ' ' || privacy_loss || ' ' || threshold || ' ' || weight "
          "|| ' ' || utility_weight || ' ' || correction_steps || ' ' || at_front, ', ') FROM privacy_loss"),
      "0 age 0.25 0.25 -1.0 0.75 2 0, 0 sex 0.125 0.25 0.5 0.75 2 0");
}

TEST_F(NonLabelStepRecorderTest, CountsStepsOverEpochs) {
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    for (uint32_t batch = 0; batch < 3; ++batch) {
      recorder_->Begin(epoch, batch, 10, 5);
      recorder_->AddReceived(7);
      recorder_->Lap(&StepTimeRow::wait);
      recorder_->Learnt();
      ASSERT_TRUE(recorder_->Record("norm 0.50 at cut").ok());
    }
  }
  EXPECT_EQ(Sql("SELECT max(step) FROM step"), "5");
  EXPECT_EQ(recorder_->step(), 6);
  EXPECT_EQ(recorder_->totals().steps, 6);
  EXPECT_EQ(recorder_->totals().examples, 60);
  EXPECT_EQ(recorder_->totals().bytes_sent, 30);
  EXPECT_EQ(recorder_->totals().bytes_received, 42);
  EXPECT_LE(recorder_->totals().waited_seconds, recorder_->totals().seconds + 1e-9);
  EXPECT_EQ(status_.Snapshot().step(), 6);
  EXPECT_EQ(status_.Snapshot().phase(), "training");
}

TEST_F(NonLabelStepRecorderTest, SaysWhereTheModelWasFrozen) {
  recorder_->Begin(1, 2, 10, 5);
  ASSERT_TRUE(recorder_->RecordFrozen().ok());
  EXPECT_EQ(Sql("SELECT detail FROM event WHERE kind = 'frozen'"),
            "from epoch 2, batch 3 on no gradient is sent: the bottom model stays as it is, the top model continues to "
            "learn");
}

TEST_F(NonLabelStepRecorderTest, ALedgerThatIsFinishedIsAnError) {
  ASSERT_TRUE(ledger_->Finish("failed").ok());
  recorder_->Begin(0, 0, 64, 100);
  recorder_->Learnt();
  EXPECT_FALSE(recorder_->Record("").ok());
  EXPECT_FALSE(recorder_->due());
}

}  // namespace
}  // namespace splitveil::testing
