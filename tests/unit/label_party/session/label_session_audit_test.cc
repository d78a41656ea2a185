// What the label party discloses to the attack module, and which scores it takes.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <utility>

#include "common/process/exit_code.h"
#include "tests/unit/label_party/session/label_session_fixture.h"

namespace splitveil::testing {
namespace {

using LabelSessionAuditTest = LabelSessionTest;

TEST_F(LabelSessionAuditTest, HintComesOnlyUnderOracle) {
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  Start();
  const absl::StatusOr<SharedGradients> response = session_->Train(Activations(0, 0));
  ASSERT_TRUE(response.ok());
  EXPECT_FALSE(response->front()->has_hint());
}

TEST_F(LabelSessionAuditTest, ScoresAreJudgedOnce) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->leaks_size(), 4);
  EXPECT_EQ(response->leaks(0).auc(), 0.5);  // All scores alike: every pair is a tie.
  EXPECT_EQ(session_->ScoreBatch(Scores(0, 0)).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(LabelSessionAuditTest, ScoresOfABatchNotReleasedAreRefused) {
  Start();
  EXPECT_EQ(session_->ScoreBatch(Scores(0, 0)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LabelSessionAuditTest, ScoresBeyondTheAgreementAreRefusedAndLeaveTheAnswerOpen) {
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

TEST_F(LabelSessionAuditTest, RoundedGrantRoundsAndLabelSideOnlyKeepsSilent) {
  for (const auto& [disclosure, leaks] : {std::pair{v1::ROUNDED, 1}, std::pair{v1::LABEL_SIDE_ONLY, 0}}) {
    run_.agreement.mutable_audit()->set_disclosure(disclosure);
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

TEST_F(LabelSessionAuditTest, AfterAFreezeNothingLeavesAndNothingIsJudged) {
  auto* budget = run_.label_config.mutable_protection()->mutable_marvell()->mutable_run_budget();
  budget->set_planned_epochs(1);
  run_.agreement.set_epochs(3);
  Start();
  TrainEpoch(0);
  const absl::StatusOr<SharedGradients> frozen = session_->Train(Activations(1, 0));
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_TRUE(frozen->front()->frozen());
  EXPECT_FALSE(frozen->front()->has_gradients());
  EXPECT_FALSE(frozen->front()->has_hint());
  EXPECT_EQ(frozen->front()->hint_rows_size(), 0);
  EXPECT_EQ(session_->ScoreBatch(Scores(1, 0)).status().code(), absl::StatusCode::kNotFound);
  // Asked again, the same; with other activations, refused.
  EXPECT_EQ(session_->Train(Activations(1, 0))->front()->SerializeAsString(), frozen->front()->SerializeAsString());
  EXPECT_EQ(session_->Train(Activations(1, 0, 2)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LabelSessionAuditTest, AHaltSaysNothingOfTheLabels) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  run_.label_config.mutable_release()->set_max_run_auc_bound(0.51);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
  const absl::Status halted = session_->Train(Activations(0, 0)).status();
  EXPECT_TRUE(IsHalt(halted));
  EXPECT_EQ(std::string(halted.message()), "release gate: halted the run");
}

// The disclosed examples of a session whose agreement gives `count` of them.
class LabelSessionCompletionTest : public LabelSessionTest {
 protected:
  void StartWithLabels(int count) {
    run_.agreement.mutable_audit()->set_auxiliary_labels(count);
    Start();
  }

  absl::StatusOr<v1::AuxiliaryLabelsResponse> Ask() const {
    v1::AuxiliaryLabelsRequest request;
    request.set_run_id(run_id_);
    return session_->AuxiliaryLabels(request);
  }

  int64_t training_examples() const { return static_cast<int64_t>(aligned_.rows.size()) - test_examples_; }

  v1::ScoreExamplesRequest Chunk(v1::Attack attack, int64_t first) const {
    v1::ScoreExamplesRequest request;
    request.set_run_id(run_id_);
    request.set_attack(attack);
    request.set_first(first);
    const int64_t size = std::min<int64_t>(run_.agreement.batch_size(), training_examples() - first);
    EXPECT_TRUE(EncodeMatrix(Matrix(1, size), v1::FLOAT32, *request.mutable_scores()).ok());
    return request;
  }
};

TEST_F(LabelSessionCompletionTest, DisclosesTheAgreedLabelsOnceTheLastEpochIsTrained) {
  StartWithLabels(10);
  TrainEpoch(0);
  EXPECT_EQ(Ask().status().code(), absl::StatusCode::kFailedPrecondition);
  TrainEpoch(1);
  const absl::StatusOr<v1::AuxiliaryLabelsResponse> response = Ask();
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->positions_size(), 10);
  ASSERT_EQ(response->labels().size(), 10);
  EXPECT_EQ(std::count(response->labels().begin(), response->labels().end(), '\1'), 5);
  EXPECT_TRUE(std::is_sorted(response->positions().begin(), response->positions().end()));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(run_.label_data.labels[aligned_.rows[response->positions(i)]], response->labels()[i]) << i;
  }
  // Asking again discloses no others.
  EXPECT_EQ(Ask()->SerializeAsString(), response->SerializeAsString());
}

TEST_F(LabelSessionCompletionTest, DisclosesNothingThatWasNotAgreed) {
  Start();
  TrainEpoch(0);
  TrainEpoch(1);
  EXPECT_EQ(Ask().status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(LabelSessionCompletionTest, TakesEveryExampleOnceInOrder) {
  StartWithLabels(10);
  TrainEpoch(0);
  TrainEpoch(1);
  EXPECT_EQ(session_->ScoreExamples(Chunk(v1::FEATURES_ONLY, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);  // Before the labels were asked for.
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(session_->ScoreExamples(Chunk(v1::FEATURES_ONLY, 64)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->ScoreExamples(Chunk(v1::NORM, 0)).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ScoreExamplesRequest longer = Chunk(v1::FEATURES_ONLY, 0);
  ASSERT_TRUE(EncodeMatrix(Matrix(1, 65), v1::FLOAT32, *longer.mutable_scores()).ok());
  EXPECT_EQ(session_->ScoreExamples(longer).status().code(), absl::StatusCode::kInvalidArgument);
  for (int64_t first = 0; first < training_examples(); first += run_.agreement.batch_size()) {
    const absl::StatusOr<v1::ScoreExamplesResponse> taken = session_->ScoreExamples(Chunk(v1::FEATURES_ONLY, first));
    EXPECT_TRUE(taken.ok()) << taken.status();
  }
  EXPECT_EQ(session_->ScoreExamples(Chunk(v1::FEATURES_ONLY, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace splitveil::testing
