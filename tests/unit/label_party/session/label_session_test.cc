// Every message the label party may refuse, in every state; and that a refused message changes nothing.
#include "label_party/session/label_session.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/process/exit_code.h"
#include "common/schedule/party_seed.h"
#include "common/transport/tensor_codec.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

// The peer, message by message: a test sends what an honest party would, then something else.
class LabelSessionTest : public ::testing::Test {
 protected:
  LabelSessionTest() : run_(300) {}

  void Create() {
    absl::StatusOr<std::unique_ptr<LabelSession>> session = LabelSession::Create(run_.LabelOptions());
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    absl::StatusOr<SeedExchange> seed = SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 's'));
    ASSERT_TRUE(seed.ok());
    seed_ = std::make_unique<SeedExchange>(*std::move(seed));
  }

  v1::OpenRequest OpenRequest() const {
    v1::OpenRequest request;
    *request.mutable_agreement() = run_.agreement;
    request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(run_.agreement))));
    request.set_seed_commitment(seed_->commitment());
    return request;
  }

  void Open() {
    Create();
    const absl::StatusOr<v1::OpenResponse> response = session_->Open(OpenRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    run_id_ = response->run_id();
    commitment_ = response->seed_commitment();
  }

  void Align() {
    Open();
    AlignmentChannelPair pair(64);
    absl::Status verdict;
    std::thread label([&] { verdict = session_->Align(*pair.second); });
    AlignmentOptions options;
    options.run_id = run_id_;
    const absl::StatusOr<AlignedIds> aligned = AlignIds(run_.nonlabel_data.ids, options, *pair.first);
    label.join();
    ASSERT_TRUE(verdict.ok()) << verdict;
    ASSERT_TRUE(aligned.ok()) << aligned.status();
    aligned_ = *aligned;
  }

  v1::StartRequest StartRequest() const {
    v1::StartRequest request;
    request.set_run_id(run_id_);
    request.set_aligned_examples(aligned_.rows.size());
    request.set_order_sha256(std::string(AsBytes(aligned_.order_sha256)));
    request.set_seed_reveal(seed_->reveal());
    return request;
  }

  void Start() {
    Align();
    const absl::StatusOr<v1::StartResponse> response = session_->Start(StartRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    const absl::StatusOr<JointSeed> joint = seed_->Combine(commitment_, response->seed_reveal());
    ASSERT_TRUE(joint.ok());
    TrainTestSplit split =
        SplitTrainTest(*joint, run_.nonlabel_data.ids, aligned_.rows, run_.agreement.test_fraction());
    test_examples_ = static_cast<int64_t>(split.test.size());
    absl::StatusOr<Schedule> schedule = Schedule::Create(
        *joint, std::move(split.train), {run_.agreement.batch_size(), run_.agreement.minimum_batch_size()});
    ASSERT_TRUE(schedule.ok());
    schedule_ = std::make_unique<Schedule>(*std::move(schedule));
  }

  // Activations of a batch: any finite numbers serve.
  v1::CutActivations ActivationsOf(uint32_t epoch, uint32_t batch, int64_t rows, float scale = 1) const {
    Matrix values(rows, run_.agreement.cut_width());
    for (int64_t i = 0; i < values.size(); ++i) {
      values.data()[i] = scale * static_cast<float>(std::sin(0.1 * static_cast<double>(i)));
    }
    v1::CutActivations message;
    message.set_run_id(run_id_);
    message.set_epoch(epoch);
    message.set_batch(batch);
    EXPECT_TRUE(EncodeMatrix(values, v1::FLOAT32, *message.mutable_activations()).ok());
    return message;
  }
  v1::CutActivations Activations(uint32_t epoch, uint32_t batch, float scale = 1) const {
    return ActivationsOf(epoch, batch, schedule_->batch_rows(batch), scale);
  }

  void TrainEpoch(uint32_t epoch) {
    for (uint32_t batch = 0; batch < schedule_->batches_per_epoch(); ++batch) {
      const absl::StatusOr<v1::CutGradients> response = session_->Train(Activations(epoch, batch));
      ASSERT_TRUE(response.ok()) << response.status();
      ASSERT_TRUE(session_->Learn().ok());
    }
  }

  // Sends every test batch of `epoch`.
  LabelSession::Evaluation EvaluateAll(uint32_t epoch) {
    LabelSession::Evaluation evaluation;
    const int64_t batch_size = run_.agreement.batch_size();
    for (int64_t done = 0; done < test_examples_; done += batch_size) {
      const int64_t rows = std::min(batch_size, test_examples_ - done);
      EXPECT_TRUE(session_->Evaluate(ActivationsOf(epoch, evaluation.next_batch, rows), evaluation).ok());
    }
    return evaluation;
  }

  // The message is refused with `code`, and the honest one still passes afterwards: nothing has changed.
  void ExpectRefused(v1::CutActivations message, absl::StatusCode code, const std::string& text) {
    const absl::StatusOr<v1::CutGradients> refused = session_->Train(std::move(message));
    EXPECT_EQ(refused.status().code(), code) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(text));
    EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
  }

  v1::ScoreBatchRequest Scores(uint32_t epoch, uint32_t batch) const {
    v1::ScoreBatchRequest request;
    request.set_run_id(run_id_);
    request.set_epoch(epoch);
    request.set_batch(batch);
    const Matrix values(1, schedule_->batch_rows(batch));
    for (const char* layer : {"cut", "first"}) {
      for (v1::Attack attack : {v1::NORM, v1::COSINE}) {
        v1::ScoreBatchRequest::Scores* scores = request.add_scores();
        scores->set_layer(layer);
        scores->set_attack(attack);
        EXPECT_TRUE(EncodeMatrix(values, v1::FLOAT32, *scores->mutable_scores()).ok());
      }
    }
    return request;
  }

  SmallRun run_;
  std::unique_ptr<LabelSession> session_;
  std::unique_ptr<SeedExchange> seed_;
  std::unique_ptr<Schedule> schedule_;
  std::string run_id_, commitment_;
  AlignedIds aligned_;
  int64_t test_examples_ = 0;
};

TEST_F(LabelSessionTest, CreateFailsWithoutLabels) {
  run_.label_data.labels.clear();
  EXPECT_EQ(LabelSession::Create(run_.LabelOptions()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LabelSessionTest, NothingPassesBeforeOpen) {
  Create();
  AlignmentChannelPair pair(4);
  EXPECT_EQ(session_->Align(*pair.second).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Start({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Train({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->ScoreBatch({}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Close({}).code(), absl::StatusCode::kFailedPrecondition);
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

TEST_F(LabelSessionTest, OpenRefusesACommitmentOfAnotherLength) {
  Create();
  v1::OpenRequest request = OpenRequest();
  request.set_seed_commitment("short");
  EXPECT_EQ(session_->Open(request).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(session_->Open(OpenRequest()).ok());
}

TEST_F(LabelSessionTest, SecondOpenIsRefused) {
  Open();
  EXPECT_EQ(session_->Open(OpenRequest()).status().code(), absl::StatusCode::kFailedPrecondition);
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
  const absl::StatusOr<v1::CutGradients> first = session_->Train(Activations(0, 0));
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(session_->Learn().ok());
  const absl::StatusOr<v1::CutGradients> again = session_->Train(Activations(0, 0));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(first->SerializeAsString(), again->SerializeAsString());
  ASSERT_TRUE(session_->Learn().ok());
  EXPECT_EQ(run_.label_status.Snapshot().step(), 1);
  EXPECT_TRUE(session_->Train(Activations(0, 1)).ok());
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

TEST_F(LabelSessionTest, HintComesOnlyUnderOracle) {
  run_.agreement.mutable_audit()->set_grant(v1::LABEL_SIDE_ONLY);
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  Start();
  const absl::StatusOr<v1::CutGradients> response = session_->Train(Activations(0, 0));
  ASSERT_TRUE(response.ok());
  EXPECT_FALSE(response->has_hint());
}

TEST_F(LabelSessionTest, ScoresAreJudgedOnce) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->leaks_size(), 4);
  EXPECT_EQ(response->leaks(0).auc(), 0.5);  // All scores alike: every pair is a tie.
  EXPECT_EQ(session_->ScoreBatch(Scores(0, 0)).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(LabelSessionTest, ScoresOfABatchNotReleasedAreRefused) {
  Start();
  EXPECT_EQ(session_->ScoreBatch(Scores(0, 0)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LabelSessionTest, ScoresBeyondTheAgreementAreRefusedAndLeaveTheAnswerOpen) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  v1::ScoreBatchRequest more = Scores(0, 0);
  *more.add_scores() = more.scores(0);
  EXPECT_EQ(session_->ScoreBatch(more).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ScoreBatchRequest other = Scores(0, 0);
  other.mutable_scores(1)->set_layer("second");
  EXPECT_EQ(session_->ScoreBatch(other).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ScoreBatchRequest shorter = Scores(0, 0);
  ASSERT_TRUE(EncodeMatrix(Matrix(1, 3), v1::FLOAT32, *shorter.mutable_scores(3)->mutable_scores()).ok());
  EXPECT_EQ(session_->ScoreBatch(shorter).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(session_->ScoreBatch(Scores(0, 0)).ok());
}

TEST_F(LabelSessionTest, RoundedGrantRoundsAndLabelSideOnlyKeepsSilent) {
  for (const auto& [grant, leaks] : {std::pair{v1::ROUNDED, 1}, std::pair{v1::LABEL_SIDE_ONLY, 0}}) {
    run_.agreement.mutable_audit()->set_grant(grant);
    run_.agreement.mutable_audit()->clear_attacks();
    run_.agreement.mutable_audit()->add_attacks(v1::NORM);
    Start();
    ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
    v1::ScoreBatchRequest request = Scores(0, 0);
    request.mutable_scores()->DeleteSubrange(3, 1);
    request.mutable_scores()->DeleteSubrange(1, 1);
    Matrix ramp(1, schedule_->batch_rows(0));
    for (int64_t i = 0; i < ramp.cols(); ++i) {
      ramp.data()[i] = static_cast<float>((i * 37) % 101);
    }
    for (v1::ScoreBatchRequest::Scores& scores : *request.mutable_scores()) {
      ASSERT_TRUE(EncodeMatrix(ramp, v1::FLOAT32, *scores.mutable_scores()).ok());
    }
    const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(request);
    ASSERT_TRUE(response.ok()) << response.status();
    ASSERT_EQ(response->leaks_size(), leaks);
    for (const v1::ScoreBatchResponse::LeakAuc& leak : response->leaks()) {
      EXPECT_NEAR(leak.auc() * 100, std::round(leak.auc() * 100), 1e-9);
    }
  }
}

TEST_F(LabelSessionTest, EvaluationOutOfTurnIsRefused) {
  Start();
  LabelSession::Evaluation evaluation;
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, 64), evaluation).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, 64), evaluation).code(), absl::StatusCode::kFailedPrecondition);
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
  EXPECT_EQ(session_->Evaluate(ActivationsOf(0, 0, std::min(batch_size, test_examples_)), again).code(),
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

TEST_F(LabelSessionTest, SilentPeerEndsTheRun) {
  run_.agreement.mutable_deadlines()->set_step_seconds(0.2);
  Start();
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kUnavailable);
}

TEST_F(LabelSessionTest, StopRequestEndsTheRunCleanly) {
  Start();
  EXPECT_TRUE(session_->WaitUntilEnded([] { return true; }).ok());
  EXPECT_FALSE(session_->completed());
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kCancelled);
}

TEST_F(LabelSessionTest, GateThatHaltsLetsNothingLeave) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);
  run_.label_config.mutable_release()->set_action(v1::ReleasePolicy::HALT);
  Start();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LabelSessionTest, GateThatHaltsOnTheMeasuredLeakLetsNothingLeave) {
  run_.label_config.mutable_release()->set_max_measured_leak(0.9);  // Bare gradients show every label.
  run_.label_config.mutable_release()->set_action(v1::ReleasePolicy::HALT);
  Start();
  EXPECT_EQ(session_->Train(Activations(0, 0)).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LabelSessionTest, GateThatWarnsReleases) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);
  Start();
  EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
}

TEST_F(LabelSessionTest, TooFewCommonExamplesEndTheRunAtStart) {
  run_.label_data.ids.resize(8);
  run_.label_data.labels.resize(8);
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

TEST_F(LabelSessionTest, StaleEvaluationIsRefused) {
  Start();
  TrainEpoch(0);
  const LabelSession::Evaluation first = EvaluateAll(0);
  const LabelSession::Evaluation second = EvaluateAll(0);
  ASSERT_TRUE(session_->FinishEvaluation(first).ok());
  EXPECT_EQ(session_->FinishEvaluation(second).status().code(), absl::StatusCode::kFailedPrecondition);
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
  EXPECT_TRUE(session_->WaitUntilEnded([] { return true; }).ok());
  EXPECT_FALSE(session_->completed());
}

}  // namespace
}  // namespace splitveil::testing
