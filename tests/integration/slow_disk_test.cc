// One party's disk is slow, and that party is killed over and over while the other one's checkpoints are ahead: both
// always find one to go on from, and the run is the undisturbed one.
#include <csignal>
#include <filesystem>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/process/file.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

constexpr int kKills = 5;

class SlowDiskTest : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<InterruptedRun> MakeRun() {
    auto run = std::make_unique<InterruptedRun>(1);
    EXPECT_TRUE(
        google::protobuf::TextFormat::MergeFromString("protection { marvell { s: 4 } }", &run->run.label_config));
    run->ForBoth([](v1::RunAgreement& agreement) {
      agreement.set_checkpoint_steps(3);
      agreement.set_epochs(16);  // A hundred steps: kills that come late must find it under way, too.
    });
    EXPECT_TRUE(WriteFile(run->run.folder + "/label.checkpoint.noise_key", std::string(32, 'k')).ok());
    return run;
  }

  static std::string PathOf(const InterruptedRun& run, const std::string& party) {
    return absl::StrCat(run.run.folder, "/", party, ".checkpoint");
  }
  // Steps that the party's latest checkpoint has seen; -1: there is none.
  static int64_t Latest(const InterruptedRun& run, const std::string& party) {
    const auto checkpoint = Checkpoint::Open(PathOf(run, party));
    return checkpoint.ok() ? (*checkpoint)->header().continuation().ledger().steps() : -1;
  }

  // Until the other party has written another checkpoint and is ahead, or for a while: kills may come at any moment.
  static void AwaitLag(const InterruptedRun& run, const std::string& slow) {
    const std::string other = slow == "label" ? "nonlabel" : "label";
    const auto since = std::filesystem::file_time_type::clock::now();
    for (const SteadyTime deadline = SteadyAfter(absl::Seconds(6)); SteadyNow() < deadline;) {
      std::error_code ignored;
      const int64_t latest = Latest(run, slow);
      if (latest >= 0 && Latest(run, other) > latest &&
          std::filesystem::last_write_time(PathOf(run, other), ignored) > since) {
        return;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
};

TEST_P(SlowDiskTest, APartyThatIsKilledOverAndOverFindsACheckpointThatBothHave) {
  const std::string slow = GetParam();
  const std::unique_ptr<InterruptedRun> quiet = MakeRun();
  quiet->Start();
  const Remains expected = quiet->Finish();
  const std::unique_ptr<InterruptedRun> run = MakeRun();
  run->Start();
  ASSERT_TRUE(run->run.nonlabel->WaitForError("training")) << run->run.nonlabel->Errors();
  std::unique_ptr<RunningProgram>& party = slow == "label" ? run->run.label : run->run.nonlabel;
  for (int kill = 0; kill < kKills; ++kill) {
    party->Signal(SIGKILL);
    (void)party->Wait();
    const Environment preload("LD_PRELOAD", SLOW_DISK);
    const Environment milliseconds("SPLITVEIL_TEST_SYNC_MILLISECONDS", "150");
    slow == "label" ? run->RestartLabelParty() : run->RestartNonLabelParty();
    AwaitLag(*run, slow);
    ASSERT_FALSE(party->HasEnded()) << party->Errors();
  }
  party->Signal(SIGKILL);
  (void)party->Wait();
  run->SuperviseUntilDone();
  EXPECT_EQ(run->Finish(), expected);
  EXPECT_GE(std::stoi(run->Label("SELECT count(*) FROM event WHERE kind = 'continued'")), 2);
}

INSTANTIATE_TEST_SUITE_P(Parties, SlowDiskTest, ::testing::Values("label", "nonlabel"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace splitveil::testing
