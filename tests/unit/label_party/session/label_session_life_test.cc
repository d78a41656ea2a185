// The life of a label session beyond plain epochs: continuing, predicting first, stopping early, leaving checkpoints.
#include <algorithm>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/release_journal.h"
#include "common/evaluation/evaluation.h"
#include "common/leakage/bounds.h"
#include "common/process/exit_code.h"
#include "common/schedule/train_test_split.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LabelSessionLifeTest, LeavesTheModelOfEachEpochAndTheOneBefore) {
  const std::string run_id = LeaveCheckpoints();
  const std::unique_ptr<Checkpoint> last = *Checkpoint::Open(path_);
  EXPECT_EQ(last->name(), run_id + "/2");
  EXPECT_EQ(last->header().role(), run_.label_checkpoints.facts.role());
  EXPECT_EQ(*last->State(), session_->model()->TrainingState());
  EXPECT_EQ((*Checkpoint::Open(path_ + ".1"))->name(), run_id + "/1");
}

TEST_F(LabelSessionLifeTest, ACloseThatComesAgainIsAnsweredUntilThePeerKnows) {
  LeaveCheckpoints();
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());  // The answer to the first was lost.
  session_->AwaitFarewell(absl::Milliseconds(10), [] { return false; });
  Farewell();
  session_->AwaitFarewell(absl::Hours(1), [] { return false; });
  EXPECT_TRUE(session_->completed());
}

// A party that has failed does not go before its peer knows, which else would look for it until an outage ends.
TEST_F(LabelSessionLifeTest, AFailureIsToldBeforeThePartyGoes) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_release()->set_max_measured_leak(0.5001);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
  ASSERT_TRUE(IsHalt(session_->Train(Activations(0, 0)).status()));
  absl::Notification gone;
  std::thread waits([&] {
    session_->AwaitEndTold(absl::Hours(1));
    gone.Notify();
  });
  EXPECT_FALSE(gone.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
  session_->NoteRefusal("Close", session_->Close(CloseRequest()));
  waits.join();
}

TEST_F(LabelSessionLifeTest, ContinuesWithTheWeightsAndMomentsOfTheCheckpoint) {
  continues_ = LeaveCheckpoints() + "/2";
  const NamedParameters before = session_->model()->TrainingState();
  ResumeFrom(path_);
  run_.label_config.mutable_party()->set_reproducible_seed(99);  // Other weights, were they fresh.
  Start();
  EXPECT_EQ(session_->model()->TrainingState(), before);
}

TEST_F(LabelSessionLifeTest, GoesBackToTheEpochThatThePeerStoppedAt) {
  continues_ = LeaveCheckpoints() + "/1";
  run_.agreement.set_epochs(3);  // Another run, from the same weights.
  ResumeFrom(path_);
  run_.label_checkpoints.initial.push_back(*Checkpoint::Open(path_ + ".1"));
  const NamedParameters before = *run_.label_checkpoints.initial[1]->State();
  Start();
  EXPECT_EQ(session_->model()->TrainingState(), before);
}

TEST_F(LabelSessionLifeTest, RefusesAPeerWithFreshWeights) {
  LeaveCheckpoints();
  ResumeFrom(path_);
  ExpectOpenRefused("resumed_from: only the label party starts from a checkpoint: both must, or neither");
}

TEST_F(LabelSessionLifeTest, RefusesAPeerThatAloneContinues) {
  continues_ = "run/2";
  ExpectOpenRefused("resumed_from: only the non-label party starts from a checkpoint: both must, or neither");
}

TEST_F(LabelSessionLifeTest, RefusesAPeerOfAnotherEpoch) {
  const std::string run_id = LeaveCheckpoints();
  continues_ = run_id + "/7";
  ResumeFrom(path_);
  ExpectOpenRefused("runs or epochs: " + run_id + "/2 at the label party, " + run_id + "/7 at the non-label party");
}

TEST_F(LabelSessionLifeTest, RefusesAPeerOfAnotherRun) {
  LeaveCheckpoints();
  continues_ = "\x1b[2Janother\n" + std::string(5000, 'x') + "/2";
  ResumeFrom(path_);
  Create();
  const absl::Status status = session_->Open(OpenRequest()).status();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused);
  EXPECT_LT(status.message().size(), 500);
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

TEST_F(LabelSessionLifeTest, ACheckpointThatDoesNotFitTheDataEndsTheRunAtStart) {
  continues_ = LeaveCheckpoints() + "/2";
  NamedParameters state = *(*Checkpoint::Open(path_))->State();
  state.pop_back();
  ASSERT_TRUE(Checkpoint::Write(path_, (*Checkpoint::Open(path_))->header(), state, "").ok());
  ResumeFrom(path_);
  Align();
  EXPECT_EQ(session_->Start(StartRequest()).status().code(), absl::StatusCode::kInternal);  // What the peer is told.
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kInvalidInput);
}

// Rule 6: what an example was released at in the run before counts, since it may return.
TEST_F(LabelSessionLifeTest, TheRunsLimitCountsTheRunsBefore) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(0.5);
  continues_ = LeaveCheckpoints() + "/2";
  const double remembered = (*Checkpoint::Open(path_))->header().label_party().cumulative_sum_kl();
  EXPECT_NEAR(remembered, 1.0, 1e-6);  // Two epochs.
  run_.label_config.mutable_release()->set_max_run_auc_bound(GaussianAucBound(1.25));
  run_.label_config.mutable_release()->set_action(v1::HALT);
  const std::string run_id = run_id_;
  run_.label_checkpoints.initial.clear();
  continues_.clear();
  Start();  // On its own, the first epoch is within the limit.
  EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
  continues_ = run_id + "/2";
  ResumeFrom(path_);
  Start();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kResourceExhausted);
}

// The peer says which of this party's checkpoints it resumes from; the older one has counted less.
TEST_F(LabelSessionLifeTest, AnOlderCheckpointHandsNothingBack) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(0.5);
  continues_ = LeaveCheckpoints() + "/1";
  Farewell();
  run_.label_checkpoints.initial = {*Checkpoint::Open(path_), *Checkpoint::Open(path_ + ".1")};
  LeaveCheckpoints();
  // Two epochs before, and two more; the older checkpoint alone would make it 1.5.
  EXPECT_NEAR((*Checkpoint::Open(path_))->header().label_party().cumulative_sum_kl(), 2.0, 1e-6);
}

TEST_F(LabelSessionLifeTest, TheResultTellsWhatARunAndAllBeforeItCameTo) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(0.5);
  continues_ = LeaveCheckpoints() + "/2";
  Farewell();
  ResumeFrom(path_);
  LeaveCheckpoints();
  EXPECT_NEAR((*Checkpoint::Open(path_))->header().label_party().cumulative_sum_kl(), 2.0, 1e-6);
  const std::string result = ResultJson(*session_->figures());
  EXPECT_THAT(result, HasSubstr("\"resumed_from\":\"" + continues_ + "\""));
  const auto number = [&](const std::string& key) {
    return std::stod(result.substr(result.find("\"" + key + "\":") + key.size() + 3));
  };
  EXPECT_NEAR(number("run_auc_bound"), GaussianAucBound(1), 1e-6);
  EXPECT_NEAR(number("all_runs_auc_bound"), GaussianAucBound(2), 1e-6);
}

// The same seeds, data and activations: were the key not new, so would be the noise.
TEST_F(LabelSessionLifeTest, EveryContinuedRunDrawsNewNoise) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  continues_ = LeaveCheckpoints() + "/2";
  std::vector<std::string> sent;
  for (int i = 0; i < 2; ++i) {
    ResumeFrom(path_);
    Start();
    const auto gradients = session_->Train(Activations(0, 0));
    ASSERT_TRUE(gradients.ok());
    sent.push_back(gradients->front()->gradients().data());
  }
  EXPECT_NE(sent[0], sent[1]);
}

TEST_F(LabelSessionLifeTest, PredictsEveryExampleBeforeTheFirstBatch) {
  ProgressiveValidation();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  LabelSession::Evaluation first = EvaluateAll(0);
  const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(first);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->examples(), aligned_.rows.size());
  EXPECT_FALSE(response->stop_training());
  TrainEpoch(0);
  TrainEpoch(1);
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
  EXPECT_THAT(ResultJson(*session_->figures()), HasSubstr("\"best_epoch\":0"));
}

TEST_F(LabelSessionLifeTest, PredictsOnceAndNeverAgain) {
  ProgressiveValidation();
  const LabelSession::Evaluation evaluation = EvaluateAll(0);
  ASSERT_TRUE(session_->FinishEvaluation(evaluation).ok());
  EXPECT_TRUE(session_->FinishEvaluation(evaluation).ok());  // Sent on two streams: the same answer.
  // Its answer may have been lost: sent again it gets that, and is not looked at.
  LabelSession::Evaluation again;
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, 64), again).ok());
  EXPECT_TRUE(again.outputs.empty());
  const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(again);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->examples(), aligned_.rows.size());
  TrainEpoch(0);
  EXPECT_EQ(session_->FinishEvaluation(again).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, 64), again).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionLifeTest, PredictsForTheFirstEpochOnly) {
  ProgressiveValidation();
  LabelSession::Evaluation evaluation;
  EXPECT_EQ(session_->Evaluate(ActivationsOf(1, 0, 64), evaluation).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionLifeTest, APredictionOfAPartDoesNotCount) {
  ProgressiveValidation();
  LabelSession::Evaluation part;
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, 64), part).ok());
  EXPECT_EQ(session_->FinishEvaluation(part).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionLifeTest, LeavesACheckpointAfterAnEpochThatIsNotEvaluated) {
  run_.label_checkpoints.path = path_;
  ProgressiveValidation();
  ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(0)).ok());
  EXPECT_EQ(Checkpoint::Open(path_).status().code(), absl::StatusCode::kNotFound);
  TrainEpoch(0);
  ASSERT_TRUE(session_->Train(Activations(1, 0)).ok());  // Once the peer goes on, for it is done with the epoch then.
  EXPECT_EQ((*Checkpoint::Open(path_))->name(), run_id_ + "/1");
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_NE(*(*Checkpoint::Open(path_))->State(), session_->model()->TrainingState());
}

TEST_F(LabelSessionLifeTest, ACheckpointThatCannotBeWrittenEndsTheRun) {
  const std::string folder = run_.files.File("folder");
  std::filesystem::create_directory(folder);
  run_.label_checkpoints.path = folder + "/half";
  Start();
  std::filesystem::remove_all(folder);
  TrainEpoch(0);
  EXPECT_EQ(session_->FinishEvaluation(EvaluateAll(0)).status().code(), absl::StatusCode::kInternal);
  EXPECT_FALSE(session_->WaitUntilEnded([] { return false; }).ok());
}

TEST_F(LabelSessionLifeTest, APeerHearsThatTheRunIsCompleteOnceItsReportIsKept) {
  int kept = 0;
  keep_report_ = [&](const RunFigures& report, bool complete) {
    ++kept;
    EXPECT_TRUE(complete);
    EXPECT_EQ(report.ended, "completed");
    return absl::OkStatus();
  };
  Start();
  for (uint32_t epoch : {0, 1}) {
    TrainEpoch(epoch);
    EXPECT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
  }
  EXPECT_EQ(kept, 0);
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT status FROM run"), "completed");
  EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
  EXPECT_EQ(kept, 1);
}

TEST_F(LabelSessionLifeTest, AReportThatCannotBeKeptIsNoSuccessAndThePeerIsTold) {
  keep_report_ = [](const RunFigures& /*report*/, bool /*complete*/) {
    return absl::InternalError("result.json: cannot be written");
  };
  Start();
  for (uint32_t epoch : {0, 1}) {
    TrainEpoch(epoch);
    EXPECT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
  }
  const absl::Status told = session_->Close(CloseRequest());
  EXPECT_EQ(told.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(told.message()), Not(HasSubstr("result.json")));
  EXPECT_EQ(session_->Close(CloseRequest()), told);  // That answer was lost.
  session_->AwaitFarewell(absl::Hours(1), [] { return false; });
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).message(), "result.json: cannot be written");
}

TEST_F(LabelSessionLifeTest, OwnExamplesOfOneClassMakeNoSession) {
  std::fill(run_.label_data.labels.begin(), run_.label_data.labels.end(), 1);
  const absl::Status status = LabelSession::Create(run_.LabelOptions()).status();
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kInvalidInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected labels that differ among the training examples"));
}

// A peer that chooses which examples it shares, all but one of a label that it knows, would read that one from an
// answer.
TEST_F(LabelSessionLifeTest, SharedExamplesOfOneClassMakeARunThatIsNoSuccessAndTellThePeerNothing) {
  const SplitRule rule(run_.agreement);
  const std::vector<std::string> ids = run_.nonlabel_data.ids;
  int kept = 0;
  keep_report_ = [&](const RunFigures& report, bool complete) {
    ++kept;
    EXPECT_EQ(report.ended, "failed");  // Not a result.
    EXPECT_TRUE(complete);              // A process that is killed now must not listen again, as if it had failed.
    return absl::OkStatus();
  };
  for (const bool tests : {false, true}) {
    run_.nonlabel_data.ids = ids;
    ShareOnly([&](size_t i) { return run_.label_data.labels[i] == 0 || rule.IsTest(run_.label_data.ids[i]) != tests; });
    Start();
    for (uint32_t epoch = 0; epoch < static_cast<uint32_t>(run_.agreement.epochs()); ++epoch) {
      TrainEpoch(epoch);
      EXPECT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
    }
    EXPECT_TRUE(session_->Close(CloseRequest()).ok());
    EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());  // A supervisor would show the peer any other.
    const absl::Status status = session_->own_verdict();
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("labels that differ among the shared ",
                                                                      tests ? "test" : "training", " examples")));
    EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT group_concat(DISTINCT status) FROM run"),
              "failed");
  }
  EXPECT_EQ(kept, 2);
}

TEST_F(LabelSessionLifeTest, TooFewSharedExamplesEndTheRunAfterAlignment) {
  run_.nonlabel_data.ids.resize(10);
  Align();  // The peer sees by itself how few they are.
  const absl::Status status = session_->WaitUntilEnded([] { return false; });
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kInvalidInput);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected at least minimum_batch_size = 16 shared examples"));
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT status FROM run"), "failed");
}

TEST_F(LabelSessionLifeTest, StopsEarlyAndClosesAsComplete) {
  StopEarlyAfter(2, 6);
  Start();
  EXPECT_FALSE(TrainAndEvaluate(0));  // The first of all is an improvement.
  EXPECT_FALSE(TrainAndEvaluate(1));
  EXPECT_TRUE(TrainAndEvaluate(2));
  EXPECT_EQ(session_->Train(Activations(3, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
  EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
  EXPECT_TRUE(session_->completed());
  EXPECT_THAT(ResultJson(*session_->figures()), HasSubstr("\"epochs\":3"));
}

TEST_F(LabelSessionLifeTest, CloseIsRefusedWhereNobodyStoppedEarly) {
  StopEarlyAfter(2, 6);
  Start();
  EXPECT_FALSE(TrainAndEvaluate(0));
  EXPECT_EQ(session_->Close(CloseRequest()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(TrainAndEvaluate(1));
}

TEST_F(LabelSessionLifeTest, EarlyStoppingNeedsEveryEvaluation) {
  StopEarlyAfter(1, 6);
  Start();
  TrainEpoch(0);
  EXPECT_EQ(session_->Train(Activations(1, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(session_->FinishEvaluation(EvaluateAll(0))->stop_training());
  EXPECT_TRUE(session_->Train(Activations(1, 0)).ok());
}

TEST_F(LabelSessionLifeTest, TheLastAgreedEpochIsNoEarlyStop) {
  StopEarlyAfter(1, 2);
  Start();
  EXPECT_FALSE(TrainAndEvaluate(0));
  EXPECT_FALSE(TrainAndEvaluate(1));
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
}

}  // namespace
}  // namespace splitveil::testing
