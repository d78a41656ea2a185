// The label party's operator halts a run: both parties end as after a halt by the release gate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/time.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_EQ(Ledger("SELECT count(*) FROM event WHERE kind = 'operator_halt'"), "1");
}

}  // namespace
}  // namespace splitveil::testing
