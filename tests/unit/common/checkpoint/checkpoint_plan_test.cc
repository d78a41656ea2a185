// What a party may continue from, and what it refuses before it talks to anybody.
#include "common/checkpoint/checkpoint_plan.h"

#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class CheckpointPlanTest : public ::testing::Test {
 protected:
  CheckpointPlanTest() {
    using google::protobuf::TextFormat;
    TextFormat::Parser parser;
    parser.AllowPartialMessage(true);
    EXPECT_TRUE(parser.ParseFromString("optimizer { adam {} } checkpoint_path: \"half\"", &party_));
    EXPECT_TRUE(parser.ParseFromString("layers { name: \"first\" units: 4 }", &model_));
    agreement_.set_cut_width(4);
    agreement_.set_cut_layer("first");
  }

  absl::StatusOr<CheckpointPlan> Plan(const std::string& role = "label_party") const {
    v1::PartyCommon party = party_;  // As loaded: its paths are those in the folder.
    ResolvePaths(folder_.File("party.textproto"), party);
    return PlanCheckpoints(role, party, model_, agreement_);
  }

  // Leaves the checkpoint of these epochs and continues from the same path.
  void Leave(uint32_t epochs) {
    const absl::StatusOr<CheckpointPlan> plan = Plan();
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(plan->Write(Place(epochs), {{"first.bias", {static_cast<float>(epochs)}}}, "").ok());
  }
  static v1::CheckpointHeader Place(uint32_t epochs) {
    v1::CheckpointHeader place;
    place.set_run_id("run");
    place.set_epochs(epochs);
    return place;
  }

  const TempFolder folder_;
  v1::PartyCommon party_;
  v1::ModelSpec model_;
  v1::RunAgreement agreement_;
};

TEST_F(CheckpointPlanTest, WithoutPathsNothingIsReadOrWritten) {
  party_.clear_checkpoint_path();
  const absl::StatusOr<CheckpointPlan> plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_FALSE(plan->resumes());
  EXPECT_EQ(plan->resumed_from(), nullptr);
  EXPECT_TRUE(plan->Write(Place(1), {}, "").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(CheckpointPlanTest, FindsTheLastThree) {
  for (const uint32_t epochs : {1, 2, 3, 4}) {
    Leave(epochs);
  }
  party_.set_initial_checkpoint("half");
  const absl::StatusOr<CheckpointPlan> plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->initial.size(), 3);
  EXPECT_EQ(plan->initial[0]->name(), "run/4");
  EXPECT_EQ(plan->resumed_from(), plan->initial[0].get());
  EXPECT_EQ(FindCheckpoint(plan->initial, "run/2")->State()->at(0).second, std::vector<float>{2});
  EXPECT_EQ(FindCheckpoint(plan->initial, "run/1"), nullptr);
  EXPECT_EQ(FindCheckpoint(plan->initial, ""), nullptr);
}

// Between two renames: the latest has no file of the configured name.
TEST_F(CheckpointPlanTest, AProcessThatWasKilledWhileItReplacedOneLeavesTheLatest) {
  Leave(1);
  Leave(2);
  std::filesystem::rename(folder_.File("half.1"), folder_.File("half.2"));
  std::filesystem::rename(folder_.File("half"), folder_.File("half.1"));
  party_.set_initial_checkpoint("half");
  const absl::StatusOr<CheckpointPlan> plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->resumed_from()->name(), "run/2");
}

// Else the checkpoints that a run writes again, having gone on from an earlier one, would push that one out, and a
// second crash might find none that the other party has, too.
TEST_F(CheckpointPlanTest, ARunThatGoesOnHasWhatItGoesOnFromAsItsLatest) {
  const std::vector<std::vector<std::string>> left = {{"run/3", "run/2", "run/1"}, {"run/2", "run/1"}, {"run/1"}};
  for (size_t chosen = 0; chosen < left.size(); ++chosen) {
    for (const uint32_t epochs : {1, 2, 3}) {
      Leave(epochs);
    }
    CheckpointPlan plan = *Plan();
    ASSERT_EQ(plan.unfinished.size(), 3);
    ASSERT_TRUE(plan.GoBackTo(*plan.unfinished[chosen]).ok());
    std::vector<std::string> names;
    plan = *Plan();
    for (const std::shared_ptr<const Checkpoint>& checkpoint : plan.unfinished) {
      names.push_back(checkpoint->name());
    }
    EXPECT_EQ(names, left[chosen]);
    Leave(9);
    plan = *Plan();
    EXPECT_NE(FindCheckpoint(plan.unfinished, left[chosen].front()), nullptr);
  }
}

TEST_F(CheckpointPlanTest, TheLabelPartysStateIsOnTheFile) {
  v1::CheckpointHeader place = Place(1);
  place.mutable_label_party()->set_cumulative_sum_kl(0.5);
  ASSERT_TRUE(Plan()->Write(place, {}, "").ok());
  party_.set_initial_checkpoint("half");
  EXPECT_EQ(Plan()->initial[0]->header().label_party().cumulative_sum_kl(), 0.5);
}

TEST_F(CheckpointPlanTest, DefaultsWrittenOutAndTheOptimisersNumbersMayDiffer) {
  Leave(1);
  party_.set_initial_checkpoint("half");
  party_.mutable_optimizer()->set_learning_rate(0.5);
  party_.mutable_optimizer()->mutable_adam()->set_beta1(0.5);
  model_.mutable_layers(0)->set_activation(v1::RELU);
  EXPECT_TRUE(Plan().ok()) << Plan().status();
}

TEST_F(CheckpointPlanTest, ATorchScriptFileMayHaveMoved) {
  model_.set_torchscript_path("a.pt");
  Leave(1);
  party_.set_initial_checkpoint("half");
  model_.set_torchscript_path("elsewhere/a.pt");
  EXPECT_TRUE(Plan().ok()) << Plan().status();
}

struct Misfit {
  std::function<void(v1::PartyCommon&, v1::ModelSpec&, v1::RunAgreement&)> change;
  std::string text;
};

TEST_F(CheckpointPlanTest, EveryMisfitIsNamed) {
  Leave(1);
  party_.set_initial_checkpoint("half");
  const std::vector<Misfit> misfits = {
      {[](auto&, auto& model, auto&) { model.mutable_layers(0)->set_units(8); },
       "model.layers: the configuration's is [name: \"first\" units: 8"},
      {[](auto&, auto&, auto& agreement) { agreement.set_cut_width(8); },
       "cut_width: the configuration's is 8, the checkpoint's 4"},
      {[](auto&, auto&, auto& agreement) { agreement.set_cut_layer("second"); },
       "cut_layer: the configuration's is \"second\", the checkpoint's \"first\""},
      {[](auto& party, auto&, auto&) { party.mutable_optimizer()->mutable_sgd(); },
       "optimizer: the configuration's is \"sgd\", the checkpoint's \"adam\""},
      {[](auto& party, auto&, auto&) { party.mutable_optimizer()->set_average_decay(0.9); },
       "optimizer: the configuration's is \"adam, averaged\", the checkpoint's \"adam\""}};
  for (const Misfit& misfit : misfits) {
    const v1::PartyCommon party = party_;
    const v1::ModelSpec model = model_;
    const v1::RunAgreement agreement = agreement_;
    misfit.change(party_, model_, agreement_);
    const absl::Status status = Plan().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(misfit.text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.File("half")));
    party_ = party;
    model_ = model;
    agreement_ = agreement;
  }
  EXPECT_THAT(std::string(Plan("nonlabel_party").status().message()),
              HasSubstr("role: the configuration's is \"nonlabel_party\", the checkpoint's \"label_party\""));
}

TEST_F(CheckpointPlanTest, AMissingCheckpointIsNotFound) {
  party_.set_initial_checkpoint("half");
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointPlanTest, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  Leave(1);
  Leave(2);
  party_.set_initial_checkpoint("half");
  ASSERT_TRUE(WriteFile(folder_.File("half"), "damaged").ok());
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<CheckpointPlan> plan = Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->resumed_from()->name(), "run/1");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("started from " + folder_.File("half.1")));
  ASSERT_TRUE(WriteFile(folder_.File("half.1"), "damaged").ok());
  EXPECT_EQ(Plan().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointPlanTest, APathInNoFolderIsRefusedBeforeTheRun) {
  party_.set_checkpoint_path("none/half");
  const absl::Status status = Plan().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("party.checkpoint_path"));
}

// One row, whose number tells the data apart.
std::shared_ptr<const Dataset> Data(float number) {
  SmallTable table;
  table.ids = {"person"};
  table.numeric = {{number}};
  return table.Store();
}

TEST_F(CheckpointPlanTest, TheSameDataAreFineAndOthersAreNot) {
  CheckpointPlan first = *Plan();
  ASSERT_TRUE(first.UseData(*Data(0.25), agreement_).ok());
  ASSERT_TRUE(first.Write(Place(1), {}, "").ok());
  party_.set_initial_checkpoint("half");
  EXPECT_TRUE(Plan()->UseData(*Data(0.25), agreement_).ok());
  CheckpointPlan other = *Plan();
  const absl::Status status = other.UseData(*Data(0.5), agreement_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was trained on, or data that extend them"));
}

TEST_F(CheckpointPlanTest, ACheckpointThatNamesNoDataIsRefused) {
  Leave(1);
  party_.set_initial_checkpoint("half");
  EXPECT_EQ(Plan()->UseData(*Data(0.25), agreement_).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointPlanTest, TheOneBeforeOfOtherDataIsLeftOut) {
  for (float day : {0.25F, 0.5F}) {
    CheckpointPlan plan = *Plan();
    ASSERT_TRUE(plan.UseData(*Data(day), agreement_).ok());
    ASSERT_TRUE(plan.Write(Place(1), {}, "").ok());
  }
  party_.set_initial_checkpoint("half");
  CheckpointPlan plan = *Plan();
  ASSERT_EQ(plan.initial.size(), 2);
  ASSERT_TRUE(plan.UseData(*Data(0.5), agreement_).ok());
  EXPECT_EQ(plan.initial.size(), 1);
}

// What can be continued, and of which no checkpoint says that its run is complete.
class UnfinishedCheckpointsTest : public CheckpointPlanTest {
 protected:
  // Leaves a checkpoint as `run` does after these epochs.
  void LeaveUnfinished(const std::string& run, uint32_t epochs) {
    CheckpointPlan plan = *Plan();
    ASSERT_TRUE(plan.UseData(*data_, agreement_).ok());
    v1::CheckpointHeader place = Place(epochs);
    place.set_run_id(run);
    ASSERT_TRUE(plan.KeepContinuation(run, Sha256("seed"), AlignedIds{{0}, Sha256("order"), 1}, 1, agreement_).ok());
    ASSERT_TRUE(plan.Write(place, {{"first.bias", {static_cast<float>(epochs)}}}, "gathered").ok());
  }
  // Names, the latest first.
  std::vector<std::string> Unfinished() {
    CheckpointPlan plan = *Plan();
    EXPECT_TRUE(plan.UseData(*data_, agreement_).ok());
    std::vector<std::string> names;
    for (const std::shared_ptr<const Checkpoint>& checkpoint : plan.unfinished) {
      names.push_back(checkpoint->name());
    }
    return names;
  }

  const std::shared_ptr<const Dataset> data_ = Data(0.25);
};

TEST_F(UnfinishedCheckpointsTest, ABrokenRunIsKnownUnderAnyAgreementUntilALaterOneIsComplete) {
  agreement_.set_epochs(3);
  EXPECT_EQ(Plan()->interrupted, nullptr);
  LeaveUnfinished("another", 2);
  agreement_.set_run_name("renamed");
  agreement_.set_cut_width(5);
  ASSERT_NE(Plan()->interrupted, nullptr);
  EXPECT_EQ(Plan()->interrupted->name(), "another/2");
  EXPECT_TRUE(Plan()->unfinished.empty());
  party_.set_restart(true);
  EXPECT_EQ(Plan()->interrupted, nullptr);
  party_.clear_restart();
  LeaveUnfinished("run", 3);
  EXPECT_EQ(Plan()->interrupted->name(), "run/3");
  ASSERT_TRUE(Plan()->MarkComplete("run").ok());
  EXPECT_EQ(Plan()->interrupted, nullptr);
}

TEST_F(UnfinishedCheckpointsTest, NoneOfACompleteRunIsContinued) {
  agreement_.set_epochs(3);
  LeaveUnfinished("another", 2);
  LeaveUnfinished("run", 2);
  LeaveUnfinished("run", 3);
  EXPECT_THAT(Unfinished(), ::testing::ElementsAre("run/3", "run/2", "another/2"));
  ASSERT_TRUE(Plan()->MarkComplete("another").ok());  // Not the latest.
  EXPECT_THAT(Unfinished(), ::testing::ElementsAre("run/3", "run/2", "another/2"));
  ASSERT_TRUE(Plan()->MarkComplete("run").ok());
  EXPECT_THAT(Unfinished(), ::testing::ElementsAre("another/2"));
  const std::unique_ptr<Checkpoint> latest = *Checkpoint::Open(folder_.File("half"));
  EXPECT_EQ(latest->name(), "run/3");
  EXPECT_EQ(*latest->State(), (NamedParameters{{"first.bias", {3}}}));
  EXPECT_EQ(latest->progress(), "gathered");
  EXPECT_THAT(*RunsAt(folder_.File("half")), ::testing::ElementsAre("run", "run", "another"));
  EXPECT_TRUE(WriteFile(folder_.File("half.1"), "damaged").ok());
  EXPECT_FALSE(RunsAt(folder_.File("half")).ok());
}

TEST_F(UnfinishedCheckpointsTest, ThePathOfTheLatestIsThatOfAllThree) {
  EXPECT_EQ(PathOfLatest("folder/half"), "folder/half");
  EXPECT_EQ(PathOfLatest("folder/half.1"), "folder/half");
  EXPECT_EQ(PathOfLatest("folder/half.2"), "folder/half");
  EXPECT_EQ(PathOfLatest("folder/half.12"), "folder/half.12");
}

}  // namespace
}  // namespace splitveil::testing
