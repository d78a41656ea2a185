// What the label party's operator may change of a run: halt it, so that both parties end as after a halt by the release
// gate; raise its noise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/time/time.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class OperatorHaltTest : public LabelSessionTest {
 protected:
  std::string Ledger(const std::string& query) const { return LedgerValue(run_.files.File("label_party.db"), query); }
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
  EXPECT_THAT(std::string(again.message()), HasSubstr("found one that has ended"));
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
  void End() {
    ASSERT_TRUE(session_->Halt().ok());
    EXPECT_TRUE(IsHalt(session_->WaitUntilEnded([] { return false; })));
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

// A step that is repeated after a crash must get the noise that it had: none changes between two checkpoints.
TEST_F(RaisedNoiseTest, WhereCheckpointsAreWrittenItBeginsWithTheNextOne) {
  run_.noise_key = {7};
  run_.label_checkpoints.path = run_.files.File("label_party.checkpoint");
  Start();
  TrainStep(0);
  ASSERT_TRUE(session_->RaiseNoise().ok());
  TrainStep(1);
  for (uint32_t batch = 2; batch < schedule_->batches_per_epoch(); ++batch) {
    TrainStep(batch);
  }
  ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(0)).ok());
  ASSERT_TRUE(session_->Train(Activations(1, 0)).ok());
  End();
  EXPECT_GT(SumKl(1), SumKl(0) / 2);
  EXPECT_LE(SumKl(static_cast<int>(schedule_->batches_per_epoch())), SumKl(0) / 2 * (1 + 1e-9));
}

TEST_F(RaisedNoiseTest, NeedsARunThatTrainsWithNoiseThatCanBeRaised) {
  Create();
  EXPECT_EQ(session_->RaiseNoise().code(), absl::StatusCode::kFailedPrecondition);
  Start();
  EXPECT_THAT(std::string(session_->RaiseNoise().message()), HasSubstr("expected gradients that leave with noise"));
  End();
  EXPECT_EQ(session_->RaiseNoise().code(), absl::StatusCode::kFailedPrecondition);
  run_.label_config.mutable_protection()->mutable_max_norm();
  Start();
  TrainStep(0);
  EXPECT_THAT(std::string(session_->RaiseNoise().message()), HasSubstr("expected protection by iso or marvell"));
}

}  // namespace
}  // namespace splitveil::testing
