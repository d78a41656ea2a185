// Both programs over a connection that breaks: the run goes on as if nothing had been.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

// Three, or as many as SPLITVEIL_CUT_RUNS says.
unsigned Seeds() {
  const char* const runs = std::getenv("SPLITVEIL_CUT_RUNS");
  return runs == nullptr ? 3 : static_cast<unsigned>(std::atoi(runs));
}

// A run whose epochs are so long, more than a thousand steps, that at its first step it stays in its training stream
// for a while: between two streams the label party sees no sign of a loss.
class LongEpochs : public InterruptedRun {
 public:
  LongEpochs() : InterruptedRun(/*in_flight_batches=*/1, /*rows=*/20000) {
    ForBoth([](v1::RunAgreement& agreement) {
      agreement.set_batch_size(16);
      agreement.set_epochs(2);
    });
  }
};

class RandomCutsTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomCutsTest, CutsAtRandomMomentsLeaveTheSameParametersAndEachStepOnce) {
  constexpr int kCuts = 6;
  InterruptedRun quiet(GetParam());
  quiet.Start();
  const Remains expected = quiet.Finish();
  EXPECT_EQ(quiet.Label(kInterruptions), "0");
  EXPECT_EQ(quiet.NonLabel(kInterruptions), "0");
  const int64_t bytes = std::stoll(quiet.Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  for (unsigned seed = 1; seed <= Seeds(); ++seed) {
    std::mt19937 draw(seed);
    InterruptedRun run(GetParam());
    std::vector<int64_t> cut_after;
    for (int i = 0; i < kCuts; ++i) {
      cut_after.push_back(1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(bytes / kCuts)));
    }
    cut_after.front() += quiet.BytesBeforeTraining();
    run.proxy.CutAfter(cut_after);
    run.Start();
    const Remains found = run.Finish();
    EXPECT_TRUE(found == expected) << "seed " << seed << "\n" << found.losses << "\n" << expected.losses;
    EXPECT_GE(run.proxy.cuts(), 3) << "seed " << seed;
    // A cut within a reconnection is no other interruption; a call and the stream beside it may each find one.
    EXPECT_GE(std::stoi(run.Label(kInterruptions)), 1);
    EXPECT_LE(std::stoi(run.Label(kInterruptions)), run.proxy.cuts());
    EXPECT_GE(std::stoi(run.NonLabel(kInterruptions)), 1);
    EXPECT_LE(std::stoi(run.NonLabel(kInterruptions)), 2 * run.proxy.cuts());
    EXPECT_THAT(run.run.label->Errors(), HasSubstr("s without the non-label party"));
    EXPECT_THAT(run.run.nonlabel->Errors(), HasSubstr("s without the label party"));
  }
}

INSTANTIATE_TEST_SUITE_P(InFlight, RandomCutsTest, ::testing::Values(1, 3));

// From the handshakes on: the opening messages and the alignment, which restarts.
TEST(InterruptionsTest, CutsBeforeTheFirstStepLeaveTheSameParametersAndEachStepOnce) {
  constexpr char kAligning[] = "SELECT count(*) FROM alignment";
  constexpr char kAligned[] = "SELECT count(*) FROM event WHERE kind = 'aligned'";
  InterruptedRun quiet(1);
  quiet.Start();
  const Remains expected = quiet.Finish();
  EXPECT_EQ(quiet.Label(kAligning), "1");
  int restarts = 0;
  for (unsigned seed = 1; seed <= Seeds(); ++seed) {
    std::mt19937 draw(seed);
    InterruptedRun run(1);
    // A handshake takes some 5 KiB, the alignment 256 KiB.
    const auto later = [&](int64_t most) { return 1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(most)); };
    run.proxy.CutAfter({8'000 + later(12'000), 10'000 + later(100'000), 10'000 + later(200'000)});
    run.Start();
    const Remains found = run.Finish();
    EXPECT_TRUE(found == expected) << "seed " << seed << "\n" << found.losses << "\n" << expected.losses;
    EXPECT_EQ(run.proxy.cuts(), 3) << "seed " << seed;
    EXPECT_EQ(run.Label("SELECT count(*) FROM run WHERE status = 'completed'"), "1");
    EXPECT_EQ(run.Label(kAligned), "1");
    EXPECT_GE(std::stoi(run.Label(kInterruptions)), 1);
    EXPECT_GE(std::stoi(run.NonLabel(kInterruptions)), 1);
    EXPECT_THAT(run.run.label->Errors(), HasSubstr("s without the non-label party"));
    EXPECT_THAT(run.run.nonlabel->Errors(), HasSubstr("s without the label party"));
    restarts += std::stoi(run.NonLabel(kAligning)) - 1;
  }
  EXPECT_GT(restarts, 0);
}

// The peer says at once that it knows of the end: nothing of the run is left open, and the next one may begin.
TEST(InterruptionsTest, WhereNobodyWaitsForAnotherACompleteRunIsSettled) {
  InterruptedRun run(1, 1000);
  run.run.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run.ForBoth([](v1::RunAgreement& agreement) {
    agreement.set_epochs(1);
    agreement.mutable_deadlines()->set_max_outage_seconds(0);
  });
  for (int repeat = 0; repeat < 2; ++repeat) {
    run.StartWithFreshRandomness();
    EXPECT_EQ(run.run.nonlabel->Wait(), 0) << run.run.nonlabel->Errors();
    EXPECT_EQ(run.run.label->Wait(), 0) << run.run.label->Errors();
  }
  EXPECT_EQ(run.Label("SELECT count(*) FROM run WHERE status = 'completed'"), "2");
}

// As a supervisor would: without it the party would listen for a peer that has ended, and fail, again and again.
TEST(InterruptionsTest, APartyThatIsKilledOnceItsRunIsCompleteEndsWithItStartedAgain) {
  InterruptedRun run(1, 1000);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(1); });
  {
    const Environment preload("LD_PRELOAD", SLOW_DISK);
    const Environment slow_to_remove("SPLITVEIL_TEST_SLOW_TO_REMOVE", ".ended");
    run.StartWithFreshRandomness();
  }
  // What a party killed at its very end leaves: it is there until the party has ended by itself, a second at least.
  const std::vector<std::string> parties = {"label_party", "nonlabel_party"};
  while (!run.run.label->HasEnded() || !run.run.nonlabel->HasEnded()) {
    for (const std::string& party : parties) {
      (void)!link((run.run.ledger(party) + ".ended").c_str(), (run.run.ledger(party) + ".left").c_str());
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_EQ(run.run.label->Wait(), 0) << run.run.label->Errors();
  const std::string result = run.run.label->Output();
  ASSERT_THAT(result, ::testing::StartsWith("RESULT {"));
  for (const std::string& party : parties) {
    EXPECT_FALSE(std::filesystem::exists(run.run.ledger(party) + ".ended"));
    ASSERT_EQ(rename((run.run.ledger(party) + ".left").c_str(), (run.run.ledger(party) + ".ended").c_str()), 0);
    const std::string agreement = party == "label_party" ? "/label_run.textproto" : "/nonlabel_run.textproto";
    RunningProgram again(
        party, {"--agreement=" + run.run.folder + agreement, "--config=" + run.run.folder + "/" + party + ".textproto"},
        run.run.folder);
    EXPECT_EQ(again.Wait(), 0) << again.Errors();
    EXPECT_THAT(again.Errors(), HasSubstr("was complete before this party was killed"));
    EXPECT_EQ(again.Output(), party == "label_party" ? result : "");
    EXPECT_FALSE(std::filesystem::exists(run.run.ledger(party) + ".ended"));
  }
  EXPECT_EQ(run.Label("SELECT count(*) FROM run"), "1");
}

TEST(InterruptionsTest, PastTheAgreedOutageBothGiveUpAndSaySo) {
  LongEpochs run;
  run.ForBoth([](v1::RunAgreement& agreement) {
    agreement.mutable_deadlines()->set_step_seconds(3);
    agreement.mutable_deadlines()->set_max_outage_seconds(4);
  });
  run.Start();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.proxy.SetDown(true);
  EXPECT_EQ(run.run.nonlabel->Wait(), 3) << run.run.nonlabel->Errors();
  EXPECT_EQ(run.run.label->Wait(), 3) << run.run.label->Errors();
  EXPECT_THAT(run.run.nonlabel->Errors(), HasSubstr("did not come back within 4s (deadlines.max_outage_seconds)"));
  EXPECT_THAT(run.run.label->Errors(), HasSubstr("within 4s: its connection is lost"));
  EXPECT_EQ(run.NonLabel(kInterruptions), "1");
  EXPECT_EQ(run.NonLabel("SELECT count(*) FROM run WHERE status = 'failed'"), "1");
  EXPECT_EQ(run.Label("SELECT count(*) FROM run WHERE status = 'failed'"), "1");
  EXPECT_THAT(run.Label("SELECT detail FROM event WHERE kind = 'ended'"), HasSubstr("its connection is lost"));
}

TEST(InterruptionsTest, AConnectionThatIsDeadWithoutAWordIsFoundByKeepalive) {
  LongEpochs run;
  run.ForBoth([](v1::RunAgreement& agreement) {
    agreement.mutable_audit()->clear_layers();
    agreement.mutable_deadlines()->set_step_seconds(110);
  });
  run.Start();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.proxy.FreezeConnections();
  EXPECT_EQ(run.run.nonlabel->Wait(), 0) << run.run.nonlabel->Errors();
  EXPECT_EQ(run.run.label->Wait(), 0) << run.run.label->Errors();
  EXPECT_EQ(run.Label(kInterruptions), "1");
  EXPECT_EQ(run.NonLabel(kInterruptions), "1");
  EXPECT_EQ(run.Label("SELECT count(DISTINCT step) - count(*) FROM step"), "0");
}

TEST(InterruptionsTest, ALabelPartyThatComesBackWithoutTheRunEndsItWhereNothingWasKept) {
  InterruptedRun run(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(100000); });
  run.run.nonlabel_config.mutable_party()->clear_checkpoint_path();
  run.Start();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.run.label->Signal(SIGKILL);
  EXPECT_EQ(run.run.label->Wait(), 128 + SIGKILL);
  run.RestartLabelParty();
  EXPECT_EQ(run.run.nonlabel->Wait(), 3) << run.run.nonlabel->Errors();
  EXPECT_THAT(run.run.nonlabel->Errors(), HasSubstr("no run is open"));
}

TEST(InterruptionsTest, SomebodyElseAtTheLabelPartysAddressIsRefusedWithTheReason) {
  InterruptedRun run(1), other(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(100000); });
  other.run.StartLabelParty();
  run.Start();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.proxy.SetDown(true);
  run.proxy.ForwardTo(other.run.label_port);
  ASSERT_TRUE(run.run.nonlabel->WaitForError("is lost")) << run.run.nonlabel->Errors();
  run.proxy.SetDown(false);
  EXPECT_EQ(run.run.nonlabel->Wait(), 4) << run.run.nonlabel->Errors();
  EXPECT_THAT(run.run.nonlabel->Errors(), HasSubstr("certificate of the peer: expected one of our authority"));
}

TEST(InterruptionsTest, TerminateEndsTheWaitForALabelPartyThatIsGone) {
  InterruptedRun run(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(100000); });
  run.Start();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.proxy.SetDown(true);
  ASSERT_TRUE(run.run.nonlabel->WaitForError("is lost")) << run.run.nonlabel->Errors();
  run.run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.run.nonlabel->Wait(absl::Seconds(20)), 6) << run.run.nonlabel->Errors();
  EXPECT_EQ(run.NonLabel("SELECT count(*) FROM run WHERE status = 'stopped'"), "1");
}

}  // namespace
}  // namespace splitveil::testing
