// What the label party discloses to the attack module, and which scores it takes.
#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <utility>

#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

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
  // The answer may have been lost: the same scores get it again, others get none.
  const absl::StatusOr<v1::ScoreBatchResponse> again = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), response->SerializeAsString());
  v1::ScoreBatchRequest other = Scores(0, 0);
  other.mutable_scores(0)->mutable_scores()->mutable_data()->back() ^= 1;
  EXPECT_EQ(session_->ScoreBatch(other).status().code(), absl::StatusCode::kAlreadyExists);
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

// A peer that reads labels with scores of its own (Whitehill, AAAI 2016): 1 for one example, 0 for all others. The AUC
// is above 1/2 where that one is positive, below where it is not.
class LabelSessionCraftedScoresTest : public LabelSessionTest {
 protected:
  struct Read {
    int answers = 0;
    int right = 0;  // Guesses by them.
  };

  // A run of ten epochs under `disclosure`; a label asked for in every batch.
  Read ReadLabels(v1::DisclosureLevel disclosure) {
    run_.agreement.set_epochs(10);
    run_.agreement.set_test_fraction(0);
    v1::AuditAgreement& audit = *run_.agreement.mutable_audit();
    audit.set_disclosure(disclosure);
    audit.clear_layers();
    audit.add_layers("cut");
    audit.clear_attacks();
    audit.add_attacks(v1::NORM);
    audit.mutable_rounded()->set_minimum_batch(44);  // All that there are.
    Start();
    Read read;
    for (uint32_t epoch = 0; epoch < 10; ++epoch) {
      for (uint32_t batch = 0; batch < schedule_->batches_per_epoch(); ++batch) {
        EXPECT_TRUE(session_->Train(Activations(epoch, batch)).ok());
        EXPECT_TRUE(session_->Learn().ok());
        v1::ScoreBatchRequest request = Scores(epoch, batch);
        request.mutable_scores()->DeleteSubrange(1, 3);
        Matrix crafted(1, schedule_->batch_rows(batch));
        crafted.data()[7] = 1;
        EXPECT_TRUE(EncodeMatrix(crafted, v1::FLOAT32, *request.mutable_scores(0)->mutable_scores()).ok());
        const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(request);
        EXPECT_TRUE(response.ok()) << response.status();
        if (response.ok() && response->leaks_size() > 0) {
          const uint32_t position = schedule_->BatchRows(epoch, batch)[7];
          const bool positive = LabelOf(position) == 1;
          ++read.answers;
          // Exactly 1/2 where the oracle has named the row as a hint, a positive, and left it out.
          const double auc = response->leaks(0).auc();
          read.right += (disclosure == v1::ORACLE ? auc >= 0.5 : auc > 0.5) == positive ? 1 : 0;
          // Asked again it gets the same answer, and to another question none.
          EXPECT_EQ(session_->ScoreBatch(request)->leaks(0).auc(), auc);
          crafted.data()[8] = 1;
          EXPECT_TRUE(EncodeMatrix(crafted, v1::FLOAT32, *request.mutable_scores(0)->mutable_scores()).ok());
          EXPECT_EQ(session_->ScoreBatch(request).status().code(), absl::StatusCode::kAlreadyExists);
        }
      }
    }
    return read;
  }

  // The peer's rows, in whose order both are aligned, name the same ids as the label party's.
  uint8_t LabelOf(uint32_t position) const {
    const std::string& id = run_.nonlabel_data.ids[aligned_.rows[position]];
    const auto& ids = run_.label_data.ids;
    return run_.label_data.labels[std::find(ids.begin(), ids.end(), id) - ids.begin()];
  }
};

TEST_F(LabelSessionCraftedScoresTest, ReadEveryLabelFromExactAnswers) {
  const Read read = ReadLabels(v1::ORACLE);
  EXPECT_EQ(read.answers, 50);
  EXPECT_EQ(read.right, read.answers);
}

// Right with a probability of at most Phi(mu / 2) = 0.52 each, where both labels are as likely; a quarter is positive,
// so that guessing "no" always has 0.75. At 0.52, 42 of 50 happen once in 10^5 runs.
TEST_F(LabelSessionCraftedScoresTest, ReadNothingFromRoundedAnswersThatGuessingDoesNotTell) {
  const Read read = ReadLabels(v1::ROUNDED);
  EXPECT_EQ(read.answers, 50);
  EXPECT_LT(read.right, 42);
}

TEST_F(LabelSessionCraftedScoresTest, GetNoAnswerOnTheLabelSide) {
  EXPECT_EQ(ReadLabels(v1::LABEL_SIDE_ONLY).answers, 0);
}

TEST_F(LabelSessionCraftedScoresTest, GetNoMoreAnswersThanAgreed) {
  run_.agreement.mutable_audit()->mutable_rounded()->set_max_answers(7);
  EXPECT_EQ(ReadLabels(v1::ROUNDED).answers, 7);
}

// Above or below the median is no label of its own: one number can move the median.
TEST_F(LabelSessionAuditTest, NumbersGetNoRoundedAnswers) {
  SmallRun numbers(300, {Task::Kind::kRegression, 0});
  EXPECT_TRUE(LabelSession::Create(numbers.LabelOptions()).ok());
  numbers.agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  const absl::Status status = LabelSession::Create(numbers.LabelOptions()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("audit.disclosure: expected LABEL_SIDE_ONLY or ORACLE, as the labels are numbers"));
}

TEST_F(LabelSessionAuditTest, SmallBatchesGetNoRoundedAnswer) {
  run_.agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->leaks_size(), 0);
}

TEST_F(LabelSessionAuditTest, RoundedAnswersAreRoundedAndCounted) {
  run_.agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  run_.agreement.mutable_audit()->mutable_rounded()->set_minimum_batch(64);
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  ASSERT_TRUE(session_->Learn().ok());
  const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->leaks_size(), 1);
  EXPECT_NEAR(response->leaks(0).auc() * 100, std::round(response->leaks(0).auc() * 100), 1e-9);
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  const std::string ledger = run_.files.File("label_party.db");
  EXPECT_EQ(
      LedgerValue(ledger, "SELECT detail FROM event WHERE kind = 'rounded_answers'"),
      "up to 1000 on batches of at least 64, each of mu 0.1, at most 2 on an example: counted among its releases");
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
