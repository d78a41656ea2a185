// What the label party's operator may change of a run: halt it, so that both parties end as after a halt by the release
// gate; raise its noise; lower what the attack module is told.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/time/time.h"

#include "common/leakage/bounds.h"
#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/transport/tensor_codec.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class OperatorHaltTest : public LabelSessionTest {
 protected:
  std::string Ledger(const std::string& query) const { return LedgerValue(run_.files.File("label_party.db"), query); }
  // So that all of it is in the ledger.
  void End() {
    ASSERT_TRUE(session_->Halt().ok());
    EXPECT_TRUE(IsHalt(session_->WaitUntilEnded([] { return false; })));
  }
};

TEST_F(OperatorHaltTest, EndsTheRunOnceTheStepThatHasLeftIsDone) {
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  ASSERT_TRUE(session_->Halt().ok());
  const absl::Status heard = session_->Train(Activations(0, 1)).status();
  EXPECT_TRUE(IsHalt(heard)) << heard;
  EXPECT_EQ(heard.message(), "release gate: halted the run");  // Who did is not the peer's to know.
  const absl::Status outcome = session_->WaitUntilEnded([] { return false; });
  EXPECT_EQ(ExitCodeFor(outcome), ExitCode::kHalted);
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("operator"));
  EXPECT_EQ(Ledger("SELECT status FROM run"), "halted");
  EXPECT_EQ(Ledger("SELECT count(*) FROM step"), "1");
  EXPECT_EQ(Ledger("SELECT count(*) FROM event WHERE kind = 'operator_halt'"), "1");
}

TEST_F(OperatorHaltTest, NothingLeavesAnyMoreNorIsAnsweredAgain) {
  Start();
  const v1::CutActivations first = Activations(0, 0);
  ASSERT_TRUE(session_->Train(first).ok());
  ASSERT_TRUE(session_->Halt().ok());
  EXPECT_TRUE(IsHalt(session_->Train(first).status()));
  EXPECT_TRUE(IsHalt(session_->ScoreBatch(Scores(0, 0)).status()));
  EXPECT_TRUE(IsHalt(session_->HowItEnded()));  // As a stream or an answer under way.
  LabelSession::Evaluation evaluation;
  EXPECT_TRUE(IsHalt(session_->Evaluate(Activations(0, 0), evaluation)));
}

TEST_F(OperatorHaltTest, ThePeerIsWaitedForUntilItHasBeenTold) {
  Start();
  ASSERT_TRUE(session_->Halt().ok());
  const SteadyTime before = SteadyNow();
  session_->AwaitFarewell(absl::Milliseconds(300), [] { return false; });
  EXPECT_GE(SecondsSince(before), 0.3);
  session_->NoteRefusal("Train", session_->Train(Activations(0, 0)).status());
  session_->AwaitFarewell(absl::Hours(1), [] { return false; });
  EXPECT_LT(SecondsSince(before), 60);
}

TEST_F(OperatorHaltTest, ThereMustBeARunUnderWay) {
  Create();
  EXPECT_EQ(session_->Halt().code(), absl::StatusCode::kFailedPrecondition);  // The peer has not come.
  Start();
  ASSERT_TRUE(session_->Halt().ok());
  const absl::Status again = session_->Halt();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("the run has ended"));
  EXPECT_TRUE(IsHalt(session_->WaitUntilEnded([] { return false; })));
  EXPECT_EQ(Ledger("SELECT count(*) FROM event WHERE kind = 'operator_halt'"), "1");
}

class RaisedNoiseTest : public OperatorHaltTest {
 protected:
  RaisedNoiseTest() { run_.label_config.mutable_protection()->mutable_marvell()->set_s(4); }

  void TrainStep(uint32_t batch) {
    ASSERT_TRUE(session_->Train(Activations(0, batch)).ok());
    ASSERT_TRUE(session_->Learn().ok());
  }
  double SumKl(int step) const {
    return std::stod(Ledger("SELECT sum_kl FROM protection WHERE step = " + std::to_string(step)));
  }
};

TEST_F(RaisedNoiseTest, AStepDisclosesAtMostHalfOfTheLatestAndStaysSo) {
  Start();
  TrainStep(0);
  ASSERT_TRUE(session_->RaiseNoise().ok());
  TrainStep(1);
  TrainStep(2);
  End();
  const double limit = SumKl(0) / 2;
  EXPECT_LE(SumKl(1), limit * (1 + 1e-9));
  EXPECT_LE(SumKl(2), limit * (1 + 1e-9));
  EXPECT_GT(SumKl(1), 0);
  EXPECT_EQ(Ledger("SELECT count(*) FROM event WHERE kind = 'operator_raise_noise'"), "1");
}

TEST_F(RaisedNoiseTest, NeedsARunThatTrainsWithNoiseThatCanBeRaised) {
  Create();
  EXPECT_EQ(session_->RaiseNoise().code(), absl::StatusCode::kFailedPrecondition);
  Start();
  EXPECT_THAT(std::string(session_->RaiseNoise().message()), HasSubstr("no gradient with noise has been sent yet"));
  End();
  EXPECT_EQ(session_->RaiseNoise().code(), absl::StatusCode::kFailedPrecondition);
  run_.label_config.mutable_protection()->mutable_max_norm();
  Start();
  TrainStep(0);
  EXPECT_THAT(std::string(session_->RaiseNoise().message()), HasSubstr("only iso and marvell can raise their noise"));
}

// The agreement is on ORACLE.
class LoweredDisclosureTest : public OperatorHaltTest {
 protected:
  // The only slice of a batch's answer.
  v1::CutGradients TrainStep(uint32_t epoch, uint32_t batch) {
    const absl::StatusOr<SharedGradients> answer = session_->Train(Activations(epoch, batch));
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(session_->Learn().ok());
    return answer.ok() ? *answer->front() : v1::CutGradients();
  }
  double RunBound() const { return run_.label_status.Snapshot().label_party().run_auc_bound(); }
  int Aucs(uint32_t batch) {
    const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(Scores(0, batch));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->leaks_size() : -1;
  }
};

TEST_F(LoweredDisclosureTest, NothingIsToldFromTheNextAnswerOn) {
  Start();
  const v1::CutGradients before = TrainStep(0, 0);
  EXPECT_TRUE(before.has_hint());
  EXPECT_FALSE(before.disclosure_lowered());
  TrainStep(0, 1);
  EXPECT_EQ(Aucs(0), 4);
  ASSERT_TRUE(session_->LowerDisclosure().ok());
  EXPECT_EQ(Aucs(0), 4);  // The same question gets the same answer,
  EXPECT_EQ(Aucs(1), 0);  // and a new one none, also of a batch from before.
  const v1::CutGradients after = TrainStep(0, 2);
  EXPECT_TRUE(after.has_gradients());
  EXPECT_FALSE(after.has_hint());
  EXPECT_EQ(after.hint_rows_size(), 0);
  EXPECT_TRUE(after.disclosure_lowered());
  EXPECT_EQ(Aucs(2), 0);
  End();
  EXPECT_EQ(Ledger("SELECT detail FROM event WHERE kind = 'operator_lower_disclosure'"),
            "attack module reads from epoch 0 batch 2 on: LABEL_SIDE_ONLY; agreed: ORACLE");
  // What the attack module found out is still this party's to know.
  EXPECT_EQ(Ledger("SELECT count(*) FROM leak WHERE observer = 'nonlabel_party' AND step = 2"), "4");
}

TEST_F(LoweredDisclosureTest, TheHintOfABatchThatIsComingDoesNotLeave) {
  run_.agreement.set_wire_dtype(v1::FLOAT32);
  StartWithLongBatches(/*test_fraction=*/0);
  const Matrix values(schedule_->batch_rows(0), run_.agreement.cut_width());
  const auto slice = [&](int64_t first, int64_t rows) {
    v1::CutActivations message;
    message.set_run_id(run_id_);
    message.set_first_row(static_cast<uint32_t>(first));
    EXPECT_TRUE(
        EncodeMatrix(ConstMatrixView(values).block(first, rows), v1::FLOAT32, *message.mutable_activations()).ok());
    return message;
  };
  ASSERT_TRUE(session_->Train(slice(0, 256)).ok());
  ASSERT_TRUE(session_->LowerDisclosure().ok());
  const absl::StatusOr<SharedGradients> answer = session_->Train(slice(256, values.rows() - 256));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->back()->has_hint());
  EXPECT_TRUE(answer->back()->disclosure_lowered());
}

TEST_F(LoweredDisclosureTest, RoundedAnswersEndAndAreNotCountedAnyMore) {
  run_.agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  run_.agreement.mutable_audit()->mutable_rounded()->set_minimum_batch(16);
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  run_.agreement.mutable_audit()->add_attacks(v1::SPECTRAL);
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  Start();
  TrainStep(0, 0);
  const double answered = RunBound();
  ASSERT_TRUE(session_->LowerDisclosure().ok());
  TrainStep(0, 1);
  const double lowered = RunBound();
  v1::ScoreBatchRequest scores = Scores(0, 1);
  for (v1::ScoreBatchRequest::Scores& each : *scores.mutable_scores()) {
    each.set_attack(each.attack() == v1::COSINE ? v1::SPECTRAL : each.attack());
  }
  const absl::StatusOr<v1::ScoreBatchResponse> response = session_->ScoreBatch(scores);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->leaks_size(), 0);
  End();
  // An answer has mu^2, mu being 0.1; no example is in both batches.
  const double first = std::stod(Ledger("SELECT sum_kl FROM protection WHERE step = 0"));
  const double second = std::stod(Ledger("SELECT sum_kl FROM protection WHERE step = 1"));
  EXPECT_NEAR(answered, GaussianAucBound(first + 0.01), 1e-8);
  EXPECT_NEAR(lowered, GaussianAucBound(std::max(first, second) + 0.01), 1e-8);
}

TEST_F(LoweredDisclosureTest, AuxiliaryLabelsAreWithheldUnlessTheyHaveLeft) {
  run_.agreement.mutable_audit()->set_auxiliary_labels(32);
  for (const bool asked_before : {false, true}) {
    Start();
    for (uint32_t epoch = 0; epoch < run_.agreement.epochs(); ++epoch) {
      TrainEpoch(epoch);
      ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
    }
    v1::AuxiliaryLabelsRequest request;
    request.set_run_id(run_id_);
    if (asked_before) {
      ASSERT_EQ(session_->AuxiliaryLabels(request)->positions_size(), 32);
    }
    ASSERT_TRUE(session_->LowerDisclosure().ok());
    const absl::StatusOr<v1::AuxiliaryLabelsResponse> answer = session_->AuxiliaryLabels(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->positions_size(), asked_before ? 32 : 0);
    EXPECT_EQ(answer->labels().size(), asked_before ? 32 : 0);
  }
}

TEST_F(LoweredDisclosureTest, NeedsARunThatTrainsAndSomethingToLower) {
  Create();
  EXPECT_EQ(session_->LowerDisclosure().code(), absl::StatusCode::kFailedPrecondition);
  Start();
  ASSERT_TRUE(session_->LowerDisclosure().ok());
  const absl::Status again = session_->LowerDisclosure();
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), HasSubstr("found LABEL_SIDE_ONLY"));
  End();
  EXPECT_EQ(session_->LowerDisclosure().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Ledger("SELECT count(*) FROM event WHERE kind = 'operator_lower_disclosure'"), "1");
}

}  // namespace
}  // namespace splitveil::testing
