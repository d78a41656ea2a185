// Every message the label party may refuse, in every state; and that a refused message changes nothing.
#include "label_party/session/label_session.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"
#include "tests/unit/label_party/session/label_session_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(LabelSessionTest, CreateFailsWithoutLabels) {
  run_.label_data.labels.clear();
  EXPECT_EQ(LabelSession::Create(run_.LabelOptions()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LabelSessionTest, NothingPassesBeforeOpen) {
  Create();
  AlignmentChannelPair pair(4);
  EXPECT_EQ(session_->Align(*pair.second).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(session_->Start({}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(session_->Train({}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(session_->ScoreBatch({}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(session_->Close({}).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(session_->Open(OpenRequest()).ok());
}

TEST_F(LabelSessionTest, OpenNamesTheFieldThatDiffers) {
  Create();
  v1::OpenRequest request = OpenRequest();
  request.mutable_agreement()->set_epochs(7);
  const absl::Status status = session_->Open(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("epochs"));
  EXPECT_FALSE(session_->WaitUntilEnded([] { return false; }).ok());
}

TEST_F(LabelSessionTest, OpenFailsOnAnotherDigest) {
  Create();
  v1::OpenRequest request = OpenRequest();
  request.set_agreement_sha256(std::string(32, 'x'));
  EXPECT_EQ(session_->Open(request).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, OpenRefusesACommitmentOrANonceOfAnotherLength) {
  Create();
  v1::OpenRequest request = OpenRequest();
  request.set_seed_commitment("short");
  EXPECT_EQ(session_->Open(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = OpenRequest();
  request.clear_nonce();
  EXPECT_EQ(session_->Open(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(session_->Open(OpenRequest()).ok());
}

TEST_F(LabelSessionTest, SecondOpenIsRefusedOnceSomethingMayLeave) {
  Start();
  v1::OpenRequest other = OpenRequest();
  other.mutable_seed_commitment()->back() ^= 1;
  EXPECT_EQ(session_->Open(other).status().code(), absl::StatusCode::kFailedPrecondition);
}

// With `reproducible_seed` nothing but its nonce tells it from the process that was killed.
TEST_F(LabelSessionTest, APeerThatWasStartedAgainDoesNotGetTheRunOfTheOneBeforeIt) {
  Open();
  v1::OpenRequest again = OpenRequest();
  again.mutable_nonce()->back() ^= 1;
  const absl::StatusOr<v1::OpenResponse> response = session_->Open(again);
  EXPECT_FALSE(response.ok());
  EXPECT_TRUE(session_->peer_started_again());
}

TEST_F(LabelSessionTest, OpenAndStartThatComeAgainGetTheSameAnswerUntilTheRunGoesOn) {
  Open();
  const absl::StatusOr<v1::OpenResponse> opened = session_->Open(OpenRequest());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->run_id(), run_id_);
  EXPECT_EQ(opened->seed_commitment(), commitment_);
  Start();
  EXPECT_EQ(session_->Open(OpenRequest()).status().code(), absl::StatusCode::kFailedPrecondition);
  const absl::StatusOr<v1::StartResponse> started = session_->Start(StartRequest());
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_TRUE(seed_->Combine(commitment_, started->seed_reveal()).ok());
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(session_->Start(StartRequest()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, StartBeforeAlignmentIsRefused) {
  Open();
  EXPECT_EQ(session_->Start(StartRequest()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, StartFailsOnAnotherAlignedOrder) {
  Align();
  v1::StartRequest request = StartRequest();
  request.mutable_order_sha256()->at(0) ^= 1;
  EXPECT_EQ(session_->Start(request).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(session_->WaitUntilEnded([] { return false; }).ok());
}

TEST_F(LabelSessionTest, StartFailsOnARevealThatWasNotCommittedTo) {
  Align();
  v1::StartRequest request = StartRequest();
  request.set_seed_reveal(std::string(32, 't'));
  EXPECT_EQ(session_->Start(request).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(LabelSessionTest, AnotherRunIdIsRefused) {
  Start();
  v1::CutActivations message = Activations(0, 0);
  message.set_run_id("another");
  ExpectRefused(std::move(message), absl::StatusCode::kInvalidArgument, "run_id");
}

TEST_F(LabelSessionTest, NanActivationIsRefused) {
  Start();
  v1::CutActivations message = Activations(0, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  message.mutable_activations()->mutable_data()->replace(40, 4, reinterpret_cast<const char*>(&nan), 4);
  ExpectRefused(std::move(message), absl::StatusCode::kInvalidArgument, "activations");
}

TEST_F(LabelSessionTest, WrongShapeIsRefused) {
  Start();
  v1::CutActivations message = Activations(0, 0);
  message.mutable_activations()->set_shape(1, 4);
  ExpectRefused(std::move(message), absl::StatusCode::kInvalidArgument, "activations");
}

TEST_F(LabelSessionTest, OversizeTensorIsRefused) {
  Start();
  ExpectRefused(ActivationsOf(0, 0, 10 * schedule_->batch_rows(0)), absl::StatusCode::kInvalidArgument, "activations");
}

TEST_F(LabelSessionTest, MoreBytesThanTheShapeSaysAreRefused) {
  Start();
  v1::CutActivations message = Activations(0, 0);
  message.mutable_activations()->mutable_data()->append("tail");
  ExpectRefused(std::move(message), absl::StatusCode::kInvalidArgument, "activations");
}

TEST_F(LabelSessionTest, OutOfOrderBatchIsRefused) {
  Start();
  ExpectRefused(Activations(0, 1), absl::StatusCode::kFailedPrecondition, "batch");
}

TEST_F(LabelSessionTest, AnotherEpochIsRefused) {
  Start();
  ExpectRefused(Activations(1, 0), absl::StatusCode::kFailedPrecondition, "epoch");
}

TEST_F(LabelSessionTest, RepeatedRequestGetsTheSameBytesAndTrainsOnce) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  Start();
  const absl::StatusOr<SharedGradients> first = session_->Train(Activations(0, 0));
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(session_->Learn().ok());
  const absl::StatusOr<SharedGradients> again = session_->Train(Activations(0, 0));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(first->front()->SerializeAsString(), again->front()->SerializeAsString());
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(run_.label_status.Snapshot().step(), 1);
  EXPECT_TRUE(session_->Train(Activations(0, 1)).ok());
}

TEST_F(LabelSessionTest, AProtectedBatchIsAnsweredOnceAllItsSlicesAreThere) {
  run_.label_config.mutable_protection()->mutable_max_norm();
  StartWithLongBatches(0);
  const int64_t rows = schedule_->batch_rows(0);
  ASSERT_EQ(rows, 300);
  const v1::CutActivations first = ActivationsOf(0, 0, 256);
  v1::CutActivations second = ActivationsOf(0, 0, 44, 2);
  second.set_first_row(256);

  EXPECT_EQ(session_->Train(second).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->Train(ActivationsOf(0, 0, rows)).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<SharedGradients> begun = session_->Train(first);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(begun->empty());
  EXPECT_TRUE(session_->Learn().ok());  // Nothing to learn from yet.
  EXPECT_EQ(run_.label_status.Snapshot().step(), 0);
  const absl::StatusOr<SharedGradients> answer = session_->Train(second);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->size(), 2);
  for (const auto& [slice, first_row, slice_rows] : {std::tuple(0, 0, 256), std::tuple(1, 256, 44)}) {
    EXPECT_EQ((*answer)[slice]->first_row(), first_row);
    EXPECT_EQ((*answer)[slice]->gradients().shape(0), slice_rows);
  }
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(run_.label_status.Snapshot().step(), 1);

  const absl::StatusOr<SharedGradients> repeated = session_->Train(first);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->empty());
  const absl::StatusOr<SharedGradients> again = session_->Train(second);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *answer);
  EXPECT_EQ(session_->Train(ActivationsOf(0, 0, 256, 3)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, ABatchThatNothingChangesIsAnsweredSliceBySlice) {
  StartWithLongBatches(0);
  const v1::CutActivations first = ActivationsOf(0, 0, 256);
  v1::CutActivations second = ActivationsOf(0, 0, 44, 2);
  second.set_first_row(256);
  const absl::StatusOr<SharedGradients> begun = session_->Train(first);
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_EQ(begun->size(), 1);
  EXPECT_EQ(begun->front()->gradients().shape(0), 256);
  EXPECT_TRUE(session_->Learn().ok());  // Half a batch is no step.
  EXPECT_EQ(run_.label_status.Snapshot().step(), 0);
  const absl::StatusOr<SharedGradients> again = session_->Train(first);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *begun);
  const absl::StatusOr<SharedGradients> rest = session_->Train(second);
  ASSERT_TRUE(rest.ok()) << rest.status();
  ASSERT_EQ(rest->size(), 1);
  EXPECT_EQ(rest->front()->first_row(), 256);
  EXPECT_EQ(rest->front()->gradients().shape(0), 44);
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(run_.label_status.Snapshot().step(), 1);
}

TEST_F(LabelSessionTest, NothingLeavesBeforeAGateThatMayHoldItBackHasSeenTheBatch) {
  run_.label_config.mutable_release()->set_action(v1::HALT);
  StartWithLongBatches(0);
  const absl::StatusOr<SharedGradients> begun = session_->Train(ActivationsOf(0, 0, 256));
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_TRUE(begun->empty());
}

TEST_F(LabelSessionTest, ABatchWhoseStreamBrokeIsSentFromItsStart) {
  run_.label_config.mutable_protection()->mutable_max_norm();
  StartWithLongBatches(0);
  const v1::CutActivations first = ActivationsOf(0, 0, 256);
  v1::CutActivations second = ActivationsOf(0, 0, 44);
  second.set_first_row(256);
  ASSERT_TRUE(session_->Train(first).ok());
  EXPECT_EQ(session_->Train(ActivationsOf(0, 0, 256, 2)).status().code(), absl::StatusCode::kFailedPrecondition);
  const absl::StatusOr<SharedGradients> again = session_->Train(first);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->empty());
  const absl::StatusOr<SharedGradients> answer = session_->Train(second);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->size(), 2);
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(run_.label_status.Snapshot().step(), 1);
}

TEST_F(LabelSessionTest, ABatchThatNeverCompletesIsNoStep) {
  StartWithLongBatches(0);
  ASSERT_TRUE(session_->Train(ActivationsOf(0, 0, 256)).ok());
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  EXPECT_EQ(run_.label_status.Snapshot().step(), 0);
  EXPECT_FALSE(session_->completed());
  EXPECT_EQ(session_->Train(ActivationsOf(0, 0, 44)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LabelSessionTest, SecondRequestWithOtherActivationsIsRefused) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  const absl::Status status = session_->Train(Activations(0, 0, 2.0f)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(session_->Train(Activations(0, 1)).ok());
}

TEST_F(LabelSessionTest, AnsweredBatchOfLongAgoIsRefused) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  ASSERT_TRUE(session_->Train(Activations(0, 1)).ok());
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, NoEpochBeyondTheAgreed) {
  Start();
  TrainEpoch(0);
  TrainEpoch(1);
  EXPECT_EQ(session_->Train(Activations(2, 0)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, EvaluationOutOfTurnIsRefused) {
  Start();
  LabelSession::Evaluation evaluation;
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, 64), evaluation).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, 64), evaluation).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, EvaluationIsRefusedOnceTheNextEpochHasBegun) {
  StartWithLongBatches(0.05);
  const int64_t rows = schedule_->batch_rows(0);
  ASSERT_GT(rows, 256);
  ASSERT_TRUE(session_->Train(ActivationsOf(0, 0, 256)).ok());
  v1::CutActivations rest = ActivationsOf(0, 0, rows - 256);
  rest.set_first_row(256);
  ASSERT_TRUE(session_->Train(rest).ok());
  ASSERT_TRUE(session_->Train(ActivationsOf(1, 0, 256)).ok());
  LabelSession::Evaluation evaluation;
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, test_examples_), evaluation).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, EvaluationCountsOnlyWhenWhole) {
  Start();
  TrainEpoch(0);
  const int64_t batch_size = run_.agreement.batch_size();
  LabelSession::Evaluation partial;
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, std::min(batch_size, test_examples_)), partial).ok());
  if (test_examples_ > batch_size) {
    EXPECT_EQ(session_->FinishEvaluation(partial).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  LabelSession::Evaluation whole = EvaluateAll(0);
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, whole.next_batch, 1), whole).code(),
            absl::StatusCode::kFailedPrecondition);
  const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(whole);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->examples(), test_examples_);
  LabelSession::Evaluation again;
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, std::min(batch_size, test_examples_)), again).ok());
  EXPECT_TRUE(again.outputs.empty());  // It has counted: the same answer, and nothing else.
  EXPECT_EQ(session_->FinishEvaluation(again)->examples(), test_examples_);
  EXPECT_EQ(session_->Evaluate(ActivationsOf(1, 0, std::min(batch_size, test_examples_)), again).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, CloseBeforeTheLastEpochIsRefused) {
  Start();
  v1::CloseRequest close;
  close.set_run_id(run_id_);
  close.set_completed(true);
  EXPECT_EQ(session_->Close(close).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
}

TEST_F(LabelSessionTest, PeerThatGivesUpEndsTheRun) {
  Start();
  v1::CloseRequest close;
  close.set_run_id(run_id_);
  EXPECT_TRUE(session_->Close(close).ok());
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(session_->completed());
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LabelSessionTest, StopRequestEndsTheRunCleanly) {
  Start();
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  EXPECT_FALSE(session_->completed());
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LabelSessionTest, GateThatHaltsLetsNothingLeave) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LabelSessionTest, GateThatHaltsOnTheMeasuredLeakLetsNothingLeave) {
  run_.label_config.mutable_release()->set_max_measured_leak(0.9);  // Bare gradients show every label.
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LabelSessionTest, GateThatWarnsReleases) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);
  Start();
  EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
}

TEST_F(LabelSessionTest, TooFewTrainingExamplesEndTheRunAtStart) {
  ShareOnly([](size_t i) { return i < 18; });  // As many as the smallest batch has, but some are for testing.
  Align();
  // The peer learns that it failed, this party why.
  EXPECT_EQ(session_->Start(StartRequest()).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LabelSessionTest, FailedAlignmentEndsTheRun) {
  Open();
  AlignmentChannelPair pair(64);
  absl::Status verdict;
  std::thread label([&] { verdict = session_->Align(*pair.second); });
  v1::AlignmentMessage malformed;
  malformed.set_run_id(run_id_);
  malformed.mutable_masked()->set_points("not a point");
  ASSERT_TRUE(pair.first->Send(malformed).ok());
  label.join();
  EXPECT_FALSE(verdict.ok());
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
  AlignmentChannelPair again(64);
  EXPECT_EQ(session_->Align(*again.second).code(), absl::StatusCode::kCancelled);
}

// A peer whose connection broke sends it again, while the first stream waits for its end.
TEST_F(LabelSessionTest, AnEvaluationSentOnTwoStreamsCountsOnceUntilTheNextEpoch) {
  Start();
  TrainEpoch(0);
  const LabelSession::Evaluation first = EvaluateAll(0);
  const LabelSession::Evaluation second = EvaluateAll(0);
  ASSERT_TRUE(session_->FinishEvaluation(first).ok());
  const absl::StatusOr<v1::EvaluateResponse> again = session_->FinishEvaluation(second);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->examples(), test_examples_);
  EXPECT_EQ(session_->FinishEvaluation({}).status().code(), absl::StatusCode::kFailedPrecondition);
  TrainEpoch(1);
  EXPECT_EQ(session_->FinishEvaluation(second).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionTest, CloseBeforeTheLastEvaluationIsRefused) {
  Start();
  TrainEpoch(0);
  TrainEpoch(1);
  v1::CloseRequest close;
  close.set_run_id(run_id_);
  close.set_completed(true);
  EXPECT_EQ(session_->Close(close).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  EXPECT_FALSE(session_->completed());
}

}  // namespace
}  // namespace splitveil::testing
