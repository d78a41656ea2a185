// A party is killed at any moment and the run started again: it continues to where the undisturbed one ends.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "common/process/file.h"
#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

// Two, or as many as SPLITVEIL_KILL_RUNS says, of each method.
unsigned Kills() {
  const char* const runs = std::getenv("SPLITVEIL_KILL_RUNS");
  return runs == nullptr ? 2 : static_cast<unsigned>(std::atoi(runs));
}

class KilledRunTest : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<InterruptedRun> MakeRun() {
    auto run = std::make_unique<InterruptedRun>(1);
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(GetParam(), &run->run.label_config));
    if (run->run.label_config.protection().has_gaussian_label_dp()) {
      run->ForBoth([](v1::RunAgreement& agreement) {
        agreement.mutable_audit()->clear_attacks();
        agreement.mutable_audit()->clear_layers();
        agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
      });
    }
    EXPECT_TRUE(WriteFile(run->run.folder + "/label.checkpoint.noise_key", std::string(32, 'k')).ok());
    return run;
  }

  // With what either party has left; whether that was a whole epoch or more.
  static bool Resume(InterruptedRun& run) {
    const bool both = std::filesystem::exists(run.run.folder + "/label.checkpoint") &&
                      std::filesystem::exists(run.run.folder + "/nonlabel.checkpoint");
    if (both) {
      run.run.label_config.mutable_party()->set_initial_checkpoint("label.checkpoint");
      run.run.nonlabel_config.mutable_party()->set_initial_checkpoint("nonlabel.checkpoint");
      run.StartWithFreshRandomness();
      EXPECT_TRUE(run.run.nonlabel->WaitForError("with its aligned examples and its schedule"));
    } else {                                                   // In the first epoch: from the start.
      std::filesystem::remove(run.run.ledger("label_party"));  // The run's id repeats.
      std::filesystem::remove(run.run.ledger("nonlabel_party"));
      run.Start();
    }
    return both;
  }
};

TEST_P(KilledRunTest, ContinuesToTheSameParametersToTheBit) {
  const std::unique_ptr<InterruptedRun> quiet = MakeRun();
  quiet->Start();
  const Remains expected = quiet->Finish();
  const int64_t bytes = std::stoll(quiet->Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  int continued = 0;
  for (unsigned seed = 1; seed <= Kills(); ++seed) {
    std::mt19937 draw(seed);
    const std::unique_ptr<InterruptedRun> run = MakeRun();
    run->Start();
    ASSERT_TRUE(run->run.nonlabel->WaitForError("aligned")) << run->run.nonlabel->Errors();
    // After the first epoch, mostly.
    run->proxy.CutAfter({bytes / 5 + static_cast<int64_t>(draw() % static_cast<uint64_t>(bytes * 3 / 5))});
    ASSERT_TRUE(run->proxy.WaitForCut()) << run->run.nonlabel->Errors();
    const unsigned whom = 1 + static_cast<unsigned>(draw() % 3);  // Either, or both.
    run->run.label->Signal((whom & 1) != 0 ? SIGKILL : SIGTERM);
    run->run.nonlabel->Signal((whom & 2) != 0 ? SIGKILL : SIGTERM);
    (void)run->run.label->Wait();
    (void)run->run.nonlabel->Wait();
    continued += Resume(*run) ? 1 : 0;
    const Remains found = run->Finish();
    EXPECT_EQ(found.label, expected.label) << "seed " << seed;
    EXPECT_EQ(found.nonlabel, expected.nonlabel) << "seed " << seed;
  }
  EXPECT_GT(continued, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, KilledRunTest,
                         ::testing::Values("protection { none {} }", "protection { marvell { s: 4 } }",
                                           "protection { gaussian_label_dp { sigma: 2 } } "
                                           "privacy_account { path: 'account.db' label_set: 'test' }"));

}  // namespace
}  // namespace splitveil::testing
