// Runs that go on after they were interrupted.
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

#include "common/checkpoint/release_journal.h"
#include "common/checkpoint/run_files.h"
#include "common/process/exit_code.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

using ContinuedSessionTest = LabelSessionLifeTest;

TEST_F(ContinuedSessionTest, ARunThatWasInterruptedGoesOnAfterItsLastEpochWithItsAlignment) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  LeaveCheckpoints();
  const NamedParameters before = *(*Checkpoint::Open(path_ + ".1"))->State();
  Continue(path_ + ".1");
  AlignmentChannelPair pair(4);
  EXPECT_EQ(session_->Align(*pair.second).code(), absl::StatusCode::kFailedPrecondition);  // It is aligned.
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  EXPECT_EQ(session_->model()->TrainingState(), before);
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(session_->Train(Activations(1, 0)).ok());
}

TEST_F(ContinuedSessionTest, AContinuedRunRecordsEachStepOnce) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  LeaveCheckpoints();
  const std::string ledger = run_.files.File("label_party.db");
  const auto rows = [&](const std::string& table) { return LedgerValue(ledger, "SELECT count(*) FROM " + table); };
  const std::vector<std::string> tables = {"run",        "step",       "step_time",   "protection",
                                           "evaluation", "epoch_leak", "distribution"};
  std::vector<std::string> expected;
  std::transform(tables.begin(), tables.end(), std::back_inserter(expected), rows);
  for (const char* const from : {".1", ".2"}) {  // The parts of the run so far are the same whatever it goes on from.
    uint32_t epoch = (*Checkpoint::Open(path_ + from))->header().epochs();
    Continue(path_ + from);
    ASSERT_TRUE(session_->Start(StartRequest()).ok());
    for (; epoch < 2; ++epoch) {
      TrainAndEvaluate(epoch);
    }
    EXPECT_TRUE(session_->Close(CloseRequest()).ok());
    EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
    std::vector<std::string> found;
    std::transform(tables.begin(), tables.end(), std::back_inserter(found), rows);
    EXPECT_EQ(found, expected) << from;
    EXPECT_EQ(LedgerValue(ledger, "SELECT status FROM run"), "completed");
  }
  EXPECT_EQ(rows("event WHERE kind = 'continued'"), "2");
}

// The bytes of other activations would have noise of their own: who made the run break off again and again could
// average.
TEST_F(ContinuedSessionTest, AStepThatWasAnsweredIsNotAnsweredForOtherActivations) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  LeaveCheckpoints();
  Continue(path_ + ".1");
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  ASSERT_TRUE(session_->Train(Activations(1, 0)).ok());
  ASSERT_TRUE(session_->Learn().ok());
  const absl::Status status = session_->Train(Activations(1, 1, /*scale=*/1.0001F)).status();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("they differ from those that epoch 1 batch 1 was answered for before"));
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
}

// Steps from before are repeated with what they had told; nothing after them is told, whatever the run goes on from.
TEST_F(ContinuedSessionTest, ADisclosureThatWasLoweredStaysSoWhenTheRunIsContinued) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.noise_key = {7};
  run_.label_checkpoints.path = path_;
  Start();
  TrainAndEvaluate(0);
  ASSERT_TRUE(session_->Train(Activations(1, 0)).ok());
  ASSERT_TRUE(session_->Learn().ok());
  ASSERT_TRUE(session_->LowerDisclosure().ok());
  ASSERT_TRUE(session_->Train(Activations(1, 1)).ok());
  session_.reset();  // Broken off: all that is kept is on the disk.
  Continue(path_);
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  const absl::StatusOr<SharedGradients> repeated = session_->Train(Activations(1, 0));
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->back()->has_hint());
  EXPECT_FALSE(repeated->back()->disclosure_lowered());
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(session_->ScoreBatch(Scores(1, 0))->leaks_size(), 0);
  for (const uint32_t batch : {1, 2}) {
    const absl::StatusOr<SharedGradients> later = session_->Train(Activations(1, batch));
    ASSERT_TRUE(later.ok()) << later.status();
    EXPECT_FALSE(later->back()->has_hint());
    EXPECT_TRUE(later->back()->disclosure_lowered());
    ASSERT_TRUE(session_->Learn().ok());
  }
  EXPECT_FALSE(session_->LowerDisclosure().ok());
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"),
                        "SELECT count(*) FROM event WHERE kind = 'operator_lower_disclosure'"),
            "1");
}

// The agreed number of labels is one of the run: who breaks it off after they were disclosed, and continues, gets no
// others, whatever the run goes on from. In the ledger they are disclosed once.
TEST_F(ContinuedSessionTest, AuxiliaryLabelsAreTheSameWhenTheRunIsContinued) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.agreement.mutable_audit()->set_auxiliary_labels(10);
  run_.label_checkpoints.path = path_;
  const auto ask = [this] {
    v1::AuxiliaryLabelsRequest request;
    request.set_run_id(run_id_);
    const absl::StatusOr<v1::AuxiliaryLabelsResponse> response = session_->AuxiliaryLabels(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::AuxiliaryLabelsResponse();
  };
  Start();
  TrainAndEvaluate(0);
  TrainAndEvaluate(1);
  const v1::AuxiliaryLabelsResponse first = ask();
  ASSERT_EQ(first.positions_size(), 10);
  std::vector<std::string> checkpoints;  // Kept aside: the parts of the run leave others in their places.
  for (const char* const name : {"", ".1", ".2"}) {
    checkpoints.push_back(path_ + ".aside" + name);
    std::filesystem::copy(path_ + name, checkpoints.back());
  }
  std::filesystem::copy(RunFilePath(path_, kAlignedRows, run_id_),
                        RunFilePath(path_ + ".aside", kAlignedRows, run_id_));
  for (const std::string& from : checkpoints) {
    session_.reset();  // Broken off: all that is kept is on the disk.
    Continue(from);
    ASSERT_TRUE(session_->Start(StartRequest()).ok());
    for (uint32_t epoch = (*Checkpoint::Open(from))->header().epochs(); epoch < 2; ++epoch) {
      TrainAndEvaluate(epoch);
    }
    EXPECT_EQ(ask().SerializeAsString(), first.SerializeAsString()) << from;
    EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"),
                          "SELECT group_concat(detail) FROM event WHERE kind = "
                          "'disclosed'"),
              "10 auxiliary labels to the attack module");
  }
}

// Neither may a peer that starts again undo it, nor may a step that is repeated get other noise than it had: not even
// where the operator raises the noise once more while it is repeated.
TEST_F(ContinuedSessionTest, NoiseThatWasRaisedStaysSoWhenTheRunIsContinued) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.noise_key = {7};
  run_.label_checkpoints.path = path_;
  Start();
  TrainAndEvaluate(0);
  const auto train = [this](uint32_t batch) {
    const absl::StatusOr<SharedGradients> answer = session_->Train(Activations(1, batch));
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(session_->Learn().ok());
    return answer.ok() ? answer->back()->gradients().data() : "";
  };
  const std::string before = train(0);
  ASSERT_TRUE(session_->RaiseNoise().ok());
  const std::string after = train(1);
  session_.reset();  // Broken off: all that is kept is on the disk.
  Continue(path_);
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  EXPECT_EQ(train(0), before);
  ASSERT_TRUE(session_->RaiseNoise().ok());  // From batch 2 on: batch 1 was answered.
  EXPECT_EQ(train(1), after);
  train(2);
  session_.reset();
  const auto value = [this](const std::string& query) { return LedgerValue(run_.files.File("label_party.db"), query); };
  const std::string of_step =
      "SELECT sum_kl FROM protection JOIN step USING (run_id, step) WHERE epoch = 1 AND batch = ";
  EXPECT_LE(std::stod(value(of_step + "1")), std::stod(value(of_step + "0")) / 2 * (1 + 1e-9));
  EXPECT_LE(std::stod(value(of_step + "2")), std::stod(value(of_step + "1")) / 2 * (1 + 1e-9));
  EXPECT_EQ(
      value("SELECT group_concat(detail LIKE 'from epoch 1 batch 1 on%' OR detail LIKE 'from epoch 1 batch 2 on%') "
            "FROM event WHERE kind = 'operator_raise_noise'"),
      "1,1");
}

TEST_F(ContinuedSessionTest, ARunWhoseAnswersAreNotKnownAnyMoreIsNotContinued) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  const std::string run_id = LeaveCheckpoints();
  ASSERT_TRUE(std::filesystem::remove(ReleaseJournal::PathOf(path_, run_id)));
  run_.label_checkpoints.path = path_;
  run_.label_checkpoints.unfinished = {*Checkpoint::Open(path_)};
  unfinished_ = {run_.label_checkpoints.unfinished.front()->name()};
  Create();
  EXPECT_FALSE(session_->Open(OpenRequest()).ok());
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kInvalidInput);
}

TEST_F(ContinuedSessionTest, APeerThatKnowsNoneOfTheBrokenRunsBeginsANewOne) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  const std::string run_id = LeaveCheckpoints();
  run_.label_checkpoints.unfinished = {*Checkpoint::Open(path_)};
  unfinished_ = {run_id + "/9"};
  Start();
  EXPECT_NE(run_id_, run_id);
}

// Else it could have new runs, and other noise, as often as it likes without anybody at this party.
TEST_F(ContinuedSessionTest, APeerThatBrokeARunOffAndShowsNoCheckpointOfItGetsNoNewOne) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  LeaveCheckpoints();
  run_.label_checkpoints.unfinished = {*Checkpoint::Open(path_)};
  only_continues_ = true;
  ExpectOpenRefused("unfinished: the peer interrupted its run, and both parties have no checkpoint of it in common");
}

// The label party's operator starts it again after every crash: a peer that lost its checkpoints, or says so,
// would get the same examples with other noise each time.
TEST_F(ContinuedSessionTest, APeerThatOpensAgainWithinARunIsToldToComeBackForItsCheckpoint) {
  run_.label_checkpoints.path = path_;
  Start();
  EXPECT_EQ(session_->Open(OpenRequest()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kAborted);
}

TEST_F(ContinuedSessionTest, ARunThatWasFrozenStaysSoWhenItIsContinued) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.501);
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  LeaveCheckpoints();
  run_.label_config.mutable_release()->set_max_step_auc_bound(1);  // Nothing else would freeze it.
  Continue(path_ + ".1");
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  const absl::StatusOr<SharedGradients> answer = session_->Train(Activations(1, 0));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->at(0)->frozen());
  EXPECT_THAT(FullResultJson(*session_->figures()), HasSubstr("\"frozen_after_epoch\":0"));
}

TEST_F(ContinuedSessionTest, AnswersToScoresCountInAContinuedRunAndComeOnce) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  v1::AuditAgreement& audit = *run_.agreement.mutable_audit();
  audit.set_disclosure(v1::ROUNDED);
  audit.set_every_batches(1);
  audit.mutable_rounded()->set_minimum_batch(2);
  audit.mutable_rounded()->set_mu(0.1);
  run_.label_checkpoints.path = path_;
  Start();
  const auto per_epoch = static_cast<uint32_t>(schedule_->batches_per_epoch());
  audit.mutable_rounded()->set_max_answers(per_epoch + 1);  // One of the second epoch gets the last.
  LeaveCheckpoints();
  Continue(path_ + ".1");
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  for (uint32_t batch = 0; batch < 2; ++batch) {
    ASSERT_TRUE(session_->Train(Activations(1, batch)).ok());
    ASSERT_TRUE(session_->Learn().ok());
    const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(1, batch));
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->leaks_size(), 0) << batch;  // The first was answered before, the second is beyond the quota.
  }
}

TEST_F(ContinuedSessionTest, AStartWhoseAnswerWasLostMayComeAgainUntilTheFirstStep) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  LeaveCheckpoints();
  Continue(path_ + ".1");
  const v1::StartRequest request = StartRequest();
  const absl::StatusOr<v1::StartResponse> first = session_->Start(request);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<v1::StartResponse> again = session_->Start(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->seed_reveal(), first->seed_reveal());
  ASSERT_TRUE(session_->Train(Activations(1, 0)).ok());
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(session_->Start(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ContinuedSessionTest, ABrokenRunIsNotContinuedWithAPeerOfAnotherOrder) {
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  LeaveCheckpoints();
  Continue(path_ + ".1");
  v1::StartRequest other = StartRequest();
  other.mutable_order_sha256()->back() ^= 1;
  EXPECT_EQ(ExitCodeFor(session_->Start(other).status()), ExitCode::kRefused);
}

}  // namespace
}  // namespace splitveil::testing
