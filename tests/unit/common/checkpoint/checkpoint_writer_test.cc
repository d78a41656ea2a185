// Checkpoints within an epoch are written while training goes on; those between epochs before it does.
#include "common/checkpoint/checkpoint_writer.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class CheckpointWriterTest : public ::testing::Test {
 protected:
  CheckpointWriterTest() {
    plan_.path = folder_.File("half");
    plan_.facts.mutable_continuation();
    RunRow run;
    run.run_id = "run";
    run.role = "label_party";
    ledger_ = *Ledger::Create(folder_.File("ledger.sqlite"), run);
  }

  absl::Status Write(CheckpointWriter& writer, uint32_t epochs, uint32_t batches, float bias) {
    return writer.Write({"run", epochs, batches, /*steps=*/7, /*peer_epochs=*/1, {}, /*kept_epochs=*/0, nullptr},
                        {{"bias", {bias}}}, "progress", SteadyNow());
  }
  std::unique_ptr<Checkpoint> Latest() const { return *Checkpoint::Open(plan_.path); }
  int64_t Recorded() { return *ledger_->CountEventsOfRun("checkpoint"); }

  const TempFolder folder_;
  CheckpointPlan plan_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(CheckpointWriterTest, BetweenEpochsItIsOnTheDiskBeforeTrainingGoesOn) {
  CheckpointWriter writer(&plan_, ledger_.get(), nullptr);
  ASSERT_TRUE(Write(writer, 2, 0, 1).ok());
  EXPECT_EQ(Latest()->name(), "run/2");
  EXPECT_EQ(Latest()->progress(), "progress");
  EXPECT_EQ(Recorded(), 1);
}

// Without one nothing could be continued.
TEST_F(CheckpointWriterTest, TheFirstIsOnTheDiskBeforeTrainingGoesOn) {
  CheckpointWriter writer(&plan_, ledger_.get(), nullptr);
  ASSERT_TRUE(Write(writer, 0, 3, 1).ok());
  EXPECT_EQ(Latest()->name(), "run/0+3");
}

TEST_F(CheckpointWriterTest, WithinAnEpochTrainingGoesOnMeanwhile) {
  absl::Notification trained_on;
  bool is_first = true;
  CheckpointWriter writer(&plan_, ledger_.get(), [&] {
    if (!std::exchange(is_first, false)) {
      trained_on.WaitForNotification();  // For ever, if Write waited for it.
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(Write(writer, 2, 0, 1).ok());
  ASSERT_TRUE(Write(writer, 2, 300, 1).ok());
  ASSERT_TRUE(ledger_->RecordEvent("after", "").ok());
  EXPECT_EQ(Latest()->name(), "run/2");
  trained_on.Notify();
  ASSERT_TRUE(writer.Wait().ok());
  const std::unique_ptr<Checkpoint> checkpoint = Latest();
  EXPECT_EQ(checkpoint->name(), "run/2+300");
  const v1::LedgerPosition& position = checkpoint->header().continuation().ledger();
  EXPECT_EQ(position.last_event(), 1) << "that of the first checkpoint; what came later is recorded again";
  EXPECT_EQ(position.steps(), 7);
  EXPECT_EQ(position.own_epochs(), 2);
  EXPECT_EQ(position.peer_epochs(), 1);
  EXPECT_EQ(Recorded(), 2);
}

TEST_F(CheckpointWriterTest, OneAfterTheOther) {
  CheckpointWriter writer(&plan_, ledger_.get(), nullptr);
  for (uint32_t batches = 1; batches <= 5; ++batches) {
    ASSERT_TRUE(Write(writer, 0, batches, static_cast<float>(batches)).ok());
  }
  ASSERT_TRUE(Write(writer, 1, 0, 6).ok());
  std::vector<std::string> kept;
  for (const char* const suffix : {"", ".1", ".2"}) {
    kept.push_back((*Checkpoint::Open(plan_.path + suffix))->name());
  }
  EXPECT_THAT(kept, ::testing::ElementsAre("run/1", "run/0+5", "run/0+4"));
  EXPECT_EQ((*Checkpoint::Open(plan_.path + ".1"))->State()->front().second.front(), 5);
  EXPECT_EQ(Recorded(), 6);
}

TEST_F(CheckpointWriterTest, WhatItReliesOnIsDurableFirst) {
  CheckpointWriter writer(&plan_, ledger_.get(), [] { return absl::InternalError("the journal cannot be synced"); });
  EXPECT_THAT(Write(writer, 1, 0, 1).ToString(), HasSubstr("journal"));
  EXPECT_FALSE(std::filesystem::exists(plan_.path));
  EXPECT_EQ(Recorded(), 0);
}

TEST_F(CheckpointWriterTest, TheNextCallTellsOfAFailureOnce) {
  CheckpointWriter writer(&plan_, ledger_.get(), nullptr);
  ASSERT_TRUE(Write(writer, 0, 0, 0).ok());
  plan_.path = folder_.File("absent/half");
  ASSERT_TRUE(Write(writer, 0, 1, 1).ok());
  EXPECT_THAT(Write(writer, 0, 2, 2).ToString(), HasSubstr("absent/half.new: cannot be created"));
  EXPECT_TRUE(writer.Wait().ok()) << "the second was not begun";
  ASSERT_TRUE(Write(writer, 0, 3, 3).ok());
  EXPECT_THAT(writer.Wait().ToString(), HasSubstr("absent/half.new"));
}

TEST_F(CheckpointWriterTest, ItsEndWaitsForTheLatest) {
  {
    CheckpointWriter writer(&plan_, ledger_.get(), nullptr);
    ASSERT_TRUE(Write(writer, 0, 0, 1).ok());
    ASSERT_TRUE(Write(writer, 0, 9, 1).ok());
  }
  EXPECT_EQ(Latest()->name(), "run/0+9");
}

}  // namespace
}  // namespace splitveil::testing
