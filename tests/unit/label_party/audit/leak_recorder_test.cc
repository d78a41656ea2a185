#include "label_party/audit/leak_recorder.h"

#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

class LeakRecorderTest : public ::testing::Test {
 protected:
  LeakRecorderTest() {
    RunRow run;
    run.run_id = "recorded-1";
    run.role = "label_party";
    ledger_ = Ledger::Create(files_.File("ledger.db"), run).value();
    recorder_ = std::make_unique<LeakRecorder>(ledger_.get());
    batch_.labels = {1, 1, 0, 0};
    batch_.positions = {0, 1, 2, 3};
  }

  std::optional<double> Record(Observer observer, v1::Attack attack, const std::vector<float>& scores) {
    return recorder_->RecordBatch({observer, "cut", {attack}, scores}, batch_).value();
  }

  testing::TempFolder files_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakRecorder> recorder_;
  ReleasedBatch batch_;
};

TEST_F(LeakRecorderTest, ProgressSaysWhatAnAdversaryThatInvertsItsScoresReads) {
  EXPECT_EQ(recorder_->latest(), "");
  EXPECT_EQ(Record(Observer::kLabelParty, v1::NORM, {1, 2, 3, 4}), 0);  // Ledgers keep it as it was measured.
  EXPECT_EQ(recorder_->latest(), "norm 1.00 at cut");
  batch_.step = 1;
  Record(Observer::kLabelParty, v1::NORM, {1, 3, 2, 4});
  EXPECT_EQ(recorder_->latest(), "norm 0.75 at cut");
}

TEST_F(LeakRecorderTest, ProgressSaysNothingOfWhatThePeerSubmitted) {
  Record(Observer::kNonLabelParty, v1::NORM, {4, 3, 2, 1});
  EXPECT_EQ(recorder_->latest(), "");
}

TEST_F(LeakRecorderTest, RecordsNothingOfABatchOfOneClass) {
  batch_.labels = {1, 1, 1, 1};
  EXPECT_FALSE(Record(Observer::kLabelParty, v1::NORM, {1, 2, 3, 4}).has_value());
  EXPECT_TRUE(recorder_->series().empty());
}

}  // namespace
}  // namespace splitveil
