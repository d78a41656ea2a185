// Parties are killed at any moment and started again: the run goes on to where the undisturbed one ends.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
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
unsigned Runs() {
  const char* const runs = std::getenv("SPLITVEIL_KILL_RUNS");
  return runs == nullptr ? 2 : static_cast<unsigned>(std::atoi(runs));
}

constexpr char kActivationBounds[] =
    "SELECT (SELECT examples || ' ' || auc_bound FROM all_runs) || ' ' || (SELECT mu FROM activation_bound)";

struct Setting {
  const char* name;
  const char* label_config;  // Merged into the label party's.
  int in_flight_batches = 1;
  int checkpoint_steps = 0;
  const char* nonlabel_config = "";
};

class KilledRunTest : public ::testing::TestWithParam<Setting> {
 protected:
  static std::unique_ptr<InterruptedRun> MakeRun() {
    auto run = std::make_unique<InterruptedRun>(GetParam().in_flight_batches);
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(GetParam().label_config, &run->run.label_config));
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(GetParam().nonlabel_config, &run->run.nonlabel_config));
    const v1::GradientProtection& protection = run->run.label_config.protection();
    const bool proved = protection.has_gaussian_label_dp() || protection.has_label_dp();
    run->ForBoth([&](v1::RunAgreement& agreement) {
      agreement.set_checkpoint_steps(GetParam().checkpoint_steps);
      if (run->run.label_config.has_early_stopping()) {
        agreement.set_epochs(30);  // It ends with the one after the best.
      }
      if (proved) {
        agreement.mutable_audit()->clear_attacks();
        agreement.mutable_audit()->clear_layers();
        agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
      }
      if (run->run.nonlabel_config.protection().has_gaussian()) {
        agreement.mutable_audit()->clear_layers();
        agreement.mutable_audit()->add_layers("cut");
      }
    });
    EXPECT_TRUE(WriteFile(run->run.folder + "/label.checkpoint.noise_key", std::string(32, 'k')).ok());
    return run;
  }
};

// Once the proxy has gone down, kills either party, or both; then the proxy is there again.
void KillWhenCut(unsigned whom, InterruptedRun& run) {
  ASSERT_TRUE(run.proxy.WaitForCut());
  for (const auto& [bit, party] : {std::pair(1U, run.run.label.get()), std::pair(2U, run.run.nonlabel.get())}) {
    if ((whom & bit) != 0) {
      party->Signal(SIGKILL);
      (void)party->Wait();
    }
  }
  run.proxy.SetDown(false);
}

TEST_P(KilledRunTest, GoesOnToTheSameParametersAndRecordsToTheBit) {
  const std::unique_ptr<InterruptedRun> quiet = MakeRun();
  quiet->Start();
  const Remains expected = quiet->Finish();
  if (GetParam().name == std::string("an_earlier_epoch_is_kept")) {
    EXPECT_EQ(quiet->Label("SELECT kept FROM evaluation ORDER BY step DESC LIMIT 1"), "");
  }
  const int64_t bytes = std::stoll(quiet->Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  int continued = 0;
  for (unsigned seed = 1; seed <= Runs(); ++seed) {
    std::mt19937 draw(seed);
    const std::unique_ptr<InterruptedRun> run = MakeRun();
    // Once both hold the aligned order, which a second alignment would draw again.
    run->proxy.GoDownAfter(quiet->BytesBeforeTraining() + bytes / 20 +
                           static_cast<int64_t>(draw() % static_cast<uint64_t>(bytes / 2)));
    run->Start();
    KillWhenCut(1 + draw() % 3, *run);
    run->SuperviseUntilDone();
    const Remains found = run->Finish();
    EXPECT_EQ(found.label, expected.label) << "seed " << seed;
    EXPECT_EQ(found.nonlabel, expected.nonlabel) << "seed " << seed;
    EXPECT_EQ(found.losses, expected.losses) << "seed " << seed;
    EXPECT_EQ(found.nonlabel_steps, expected.nonlabel_steps) << "seed " << seed;
    EXPECT_EQ(found.evaluations, expected.evaluations) << "seed " << seed;
    EXPECT_EQ(found.leaks, expected.leaks) << "seed " << seed;
    EXPECT_EQ(found.epoch_leaks, expected.epoch_leaks) << "seed " << seed;
    EXPECT_EQ(run->Label("SELECT group_concat(status) FROM run"), "completed");
    EXPECT_EQ(run->NonLabel("SELECT group_concat(status) FROM run"), "completed");
    // What the other direction's account says, and the bound of the run, stand again after every restart.
    EXPECT_EQ(run->NonLabel(kActivationBounds), quiet->NonLabel(kActivationBounds)) << "seed " << seed;
    continued += std::stoi(run->Label("SELECT count(*) FROM event WHERE kind = 'continued'"));
  }
  EXPECT_GT(continued, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, KilledRunTest,
                         ::testing::Values(Setting{"none", "protection { none {} }"},
                                           Setting{"marvell", "protection { marvell { s: 4 } }", 1, 3},
                                           Setting{"label_dp", "protection { label_dp { epsilon: 1 } }", 1, 3},
                                           Setting{"an_earlier_epoch_is_kept",
                                                   "protection { none {} } party { optimizer { learning_rate: 1 } } "
                                                   "early_stopping { metric: LOG_LOSS patience: 1 }",
                                                   1, 3, "party { optimizer { learning_rate: 1 } }"},
                                           Setting{"in_flight", "protection { iso { t: 1 } }", 3, 4},
                                           Setting{
                                               "one_draw",
                                               "protection { gaussian_label_dp { sigma: 2 noise_draws: ONE_DRAW } } "
                                               "privacy_account { path: 'account.db' label_set: 'test' }"},
                                           Setting{"gaussian_label_dp",
                                                   "protection { gaussian_label_dp { sigma: 2 } } "
                                                   "privacy_account { path: 'account.db' label_set: 'test' }",
                                                   1, 3},
                                           Setting{"noisy_activations", "protection { none {} }", 2, 3,
                                                   "protection { gaussian {} noise_sigma: 1 clip_norm: 3 } "
                                                   "privacy_account { path: 'features.account.db' }"}),
                         [](const auto& info) { return info.param.name; });

// In alignment, too, which then restarts: nothing of it was kept, and nothing had been released.
TEST(KilledRunTest, KilledAtAnyMomentFromItsStartOnItCompletes) {
  for (unsigned seed = 1; seed <= Runs(); ++seed) {
    std::mt19937 draw(seed);
    InterruptedRun run(1);
    run.StartWithFreshRandomness();
    absl::SleepFor(absl::Milliseconds(draw() % 1500));
    const unsigned whom = 1 + draw() % 3;
    run.run.label->Signal((whom & 1) != 0 ? SIGKILL : SIGCONT);
    run.run.nonlabel->Signal((whom & 2) != 0 ? SIGKILL : SIGCONT);
    run.SuperviseUntilDone();
    run.Finish();
    EXPECT_EQ(run.Label("SELECT count(DISTINCT step) - count(*) FROM step "
                        "WHERE run_id = (SELECT run_id FROM run WHERE status = 'completed')"),
              "0");
  }
}

// Within the alignment, and before the first checkpoint: a label party that was killed is started again alone, and the
// other one goes on with it. Where the non-label party was, the label party ends its run, and both are started again.
TEST(KilledRunTest, KilledInTheAlignmentItCompletesOnceStartedAgain) {
  for (const unsigned whom : {1U, 2U, 3U}) {
    for (const int64_t bytes : {60'000, 120'000, 240'000}) {  // Of some 256 KiB.
      SCOPED_TRACE(absl::StrCat("killed: ", whom, ", after ", bytes, " bytes"));
      InterruptedRun run(1);
      ASSERT_TRUE(
          google::protobuf::TextFormat::MergeFromString("protection { marvell { s: 4 } }", &run.run.label_config));
      run.proxy.GoDownAfter(bytes);
      run.StartWithFreshRandomness();
      KillWhenCut(whom, run);
      EXPECT_LE(run.SuperviseUntilDone(), whom == 1 ? 1 : 2);
      run.Finish();
      EXPECT_EQ(run.Label("SELECT count(*) FROM run WHERE status = 'completed'"), "1");
      EXPECT_EQ(run.Label("SELECT count(DISTINCT run_id) FROM step"), "1");
    }
  }
}

// The label party, started again by its operator, does not believe a peer that has, or shows, no checkpoint.
TEST(KilledRunTest, GradientsThatHaveLeftDoNotLeaveWithOtherNoise) {
  InterruptedRun run(1);
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString("protection { marvell { s: 4 } }", &run.run.label_config));
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(100000); });
  run.StartWithFreshRandomness();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.proxy.CutAfter({200'000});
  ASSERT_TRUE(run.proxy.WaitForCut());
  for (RunningProgram* const party : {run.run.label.get(), run.run.nonlabel.get()}) {
    party->Signal(SIGKILL);
    (void)party->Wait();
  }
  for (const char* const suffix : {"", ".1", ".2"}) {
    std::filesystem::remove(absl::StrCat(run.run.folder, "/nonlabel.checkpoint", suffix));
  }
  run.StartWithFreshRandomness();
  EXPECT_EQ(run.run.label->Wait(), 4) << run.run.label->Errors();
  EXPECT_EQ(run.run.nonlabel->Wait(), 4) << run.run.nonlabel->Errors();
  EXPECT_THAT(run.run.nonlabel->Errors(), ::testing::HasSubstr("a run was interrupted after gradients were sent"));
  EXPECT_THAT(run.run.nonlabel->Errors(), ::testing::Not(::testing::HasSubstr("label.checkpoint.answered")));
  EXPECT_EQ(run.Label("SELECT count(*) FROM run"), "1");
}

TEST(KilledRunTest, RestartsWhereOnePartyIsToldTo) {
  InterruptedRun run(1);
  run.ForBoth([](v1::RunAgreement& agreement) { agreement.set_epochs(100000); });
  run.StartWithFreshRandomness();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  for (RunningProgram* const party : {run.run.label.get(), run.run.nonlabel.get()}) {
    party->Signal(SIGKILL);
    (void)party->Wait();
  }
  run.run.nonlabel_config.mutable_party()->set_restart(true);
  run.StartWithFreshRandomness();
  ASSERT_TRUE(run.run.nonlabel->WaitForError("training")) << run.run.nonlabel->Errors();
  run.run.nonlabel->Signal(SIGTERM);
  EXPECT_EQ(run.run.nonlabel->Wait(), 6);
  EXPECT_EQ(run.run.label->Wait(), 3);
  EXPECT_EQ(run.Label("SELECT count(*) FROM run"), "2");
}

}  // namespace
}  // namespace splitveil::testing
