// `splitveil sweep` for real: it starts both parties' programs for every run.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "tests/testing/account_contents.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kGrid[] = "protection { name: \"none\" config { none {} } } marvell_s: 4 seeds: [1, 2]";
const std::vector<std::string> kRuns = {"none-seed1", "marvell-s=4-seed1", "frozen-seed1",
                                        "none-seed2", "marvell-s=4-seed2", "frozen-seed2"};

// A folder with data, certificates, base files and sweep.textproto.
class SweepTest : public ::testing::Test {
 protected:
  SweepTest() : files_(1000) {
    files_.label_agreement.set_epochs(1);
    files_.label_agreement.set_batch_size(128);
    files_.label_config.mutable_label_side_audit()->add_attacks(v1::NORM);  // The others have tests of their own.
  }

  // The models stay as they start.
  void KeepInitialWeights() {
    files_.label_config.mutable_party()->mutable_optimizer()->set_learning_rate(1e-12);
    files_.nonlabel_config.mutable_party()->mutable_optimizer()->set_learning_rate(1e-12);
  }
  void WriteBase() {
    Write("run.textproto", files_.label_agreement);
    Write("label.textproto", files_.label_config);
    Write("nonlabel.textproto", files_.nonlabel_config);
  }
  void WriteGrid(const std::string& grid) {
    std::ofstream(files_.folder + "/sweep.textproto")
        << "agreement_path: \"run.textproto\"\nlabel_config_path: \"label.textproto\"\n"
        << "nonlabel_config_path: \"nonlabel.textproto\"\n"
        << grid << "\n";
  }
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"sweep", "--config=" + files_.folder + "/sweep.textproto", "--out=" + Out()});
    return more;
  }
  ChildResult Sweep(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> argv = Arguments(more);
    argv.insert(argv.begin(), BinDir() + "/splitveil");
    ChildOptions options;
    options.limit_seconds = 240;
    return RunChild(argv, options);
  }
  std::string Out() const { return files_.folder + "/out"; }
  std::string ResultPath(const std::string& run) const { return absl::StrCat(Out(), "/runs/", run, "/result.json"); }
  // The state a run's result was written in: a repeated run writes a new file.
  ino_t ResultFile(const std::string& run) const {
    struct stat status = {};
    EXPECT_EQ(stat(ResultPath(run).c_str(), &status), 0) << run;
    return status.st_ino;
  }
  std::vector<std::string> CsvLines() const {
    return absl::StrSplit(ReadWholeFile(Out() + "/sweep.csv"), '\n', absl::SkipEmpty());
  }

  TwoPartyRun files_;

 private:
  void Write(const std::string& name, const google::protobuf::Message& message) {
    std::string text;
    ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(message, &text));
    std::ofstream(files_.folder + "/" + name) << text;
  }
};

TEST_F(SweepTest, CentralizedBaselineStartsFromTheWeightsOfTheSweepsSeed) {
  KeepInitialWeights();
  WriteBase();
  WriteGrid("protection { name: \"none\" config { none {} } } seeds: [2]");
  const ChildResult sweep = Sweep();
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const auto split = nlohmann::json::parse(ReadWholeFile(ResultPath("none-seed2")), nullptr, false);

  // Untrained, the loss follows from weights and test examples alone.
  const auto centralized_baseline_loss = [this](const std::vector<std::string>& seed) {
    std::vector<std::string> argv = {BinDir() + "/centralized_baseline",
                                     "--agreement=" + files_.folder + "/run.textproto",
                                     "--label_config=" + files_.folder + "/label.textproto",
                                     "--nonlabel_config=" + files_.folder + "/nonlabel.textproto", "--threads=1"};
    argv.insert(argv.end(), seed.begin(), seed.end());
    ChildOptions options;
    options.limit_seconds = 240;
    const ChildResult result = RunChild(argv, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string line = result.out.substr(result.out.find('{'));
    return nlohmann::json::parse(line, nullptr, false).value("test_log_loss", 0.0);
  };
  const double expected = split.value("test_log_loss", 1.0);
  EXPECT_NEAR(centralized_baseline_loss({"--seed=2"}), expected, 1e-6);
  EXPECT_GT(std::abs(centralized_baseline_loss({"--seed=1"}) - expected), 1e-4);
  EXPECT_GT(std::abs(centralized_baseline_loss({}) - expected), 1e-4);
}

TEST_F(SweepTest, CountsInAKeptPrivacyAccountOnlyWhereItIsTold) {
  const std::string account = files_.folder + "/labels.account.db";
  files_.label_agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  files_.label_agreement.mutable_audit()->clear_attacks();
  files_.label_agreement.mutable_audit()->add_attacks(v1::NORM);
  files_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
  files_.label_config.mutable_privacy_account()->set_path(account);
  files_.label_config.mutable_privacy_account()->set_label_set("June");
  WriteBase();
  WriteGrid("gaussian_label_dp_max_run_auc_bound: 0.7 seeds: 1");
  ChildResult sweep = Sweep();
  EXPECT_EQ(sweep.exit_code, 2) << sweep.err;
  EXPECT_THAT(sweep.err, AllOf(HasSubstr("privacy account " + account), HasSubstr("sigma 1.348"),
                               HasSubstr("0.500 now, 0.700 then, limit 1"), HasSubstr("add --debit_account")));
  EXPECT_THAT(Sweep({"--dry_run"}).out, HasSubstr("0.500 now, 0.700 then"));
  EXPECT_FALSE(std::filesystem::exists(account));
  EXPECT_FALSE(std::filesystem::exists(ResultPath("none-seed1")));
  sweep = Sweep({"--debit_account"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.err, HasSubstr("0.500 now, 0.700 then"));
  EXPECT_TRUE(std::filesystem::exists(account));
  const AccountContents before = ReadAccount(account);
  // Another seed at the same strength costs nothing more; another strength does.
  WriteGrid("gaussian_label_dp_max_run_auc_bound: 0.7 seeds: [1, 2]");
  sweep = Sweep({"--jobs=2"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  EXPECT_THAT(sweep.err, HasSubstr("all of which it has: nothing more is counted"));
  EXPECT_EQ(ReadAccount(account), before);
  WriteGrid("gaussian_label_dp_max_run_auc_bound: [0.7, 0.6] seeds: 1");
  sweep = Sweep();
  EXPECT_EQ(sweep.exit_code, 2);
  EXPECT_THAT(sweep.err, AllOf(HasSubstr("sigma 2.791"), HasSubstr("0.700 now, 0.72")));
  EXPECT_EQ(ReadAccount(account), before);
}

TEST_F(SweepTest, RunsTheGridThenOnlyWhatIsMissing) {
  KeepInitialWeights();
  WriteBase();
  WriteGrid(kGrid);
  const ChildResult first = Sweep({"--jobs=2"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("[6/6] "));
  EXPECT_THAT(first.err, HasSubstr("runs  6/6"));
  EXPECT_THAT(first.out, HasSubstr("marvell s=4      2"));
  EXPECT_THAT(CsvLines(), SizeIs(7));
  EXPECT_THAT(ReadWholeFile(Out() + "/tradeoff.html"), HasSubstr("6 of 6 runs finished"));
  std::vector<ino_t> files;
  std::vector<double> losses;
  for (const std::string& run : kRuns) {
    files.push_back(ResultFile(run));
    const auto result = nlohmann::json::parse(ReadWholeFile(ResultPath(run)), nullptr, false);
    EXPECT_EQ(result.value("run_id", "").substr(0, run.size()), run);
    const bool attacked = result.contains(nlohmann::json::json_pointer("/leak/cut/norm/p95"));
    EXPECT_EQ(attacked, run.rfind("frozen", 0) != 0) << run;
    losses.push_back(result["test_log_loss"].get<double>());
  }
  // Untrained, it follows from the initial weights and the test examples alone: a seed's runs share both.
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
  EXPECT_NEAR(losses[0], losses[2], 1e-6);
  EXPECT_NEAR(losses[3], losses[4], 1e-6);
  EXPECT_GT(std::abs(losses[0] - losses[3]), 1e-4);

  const ChildResult second = Sweep();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(second.err, "6 of 6 runs are finished already\n");
  EXPECT_EQ(second.out, first.out);
  EXPECT_THAT(CsvLines(), SizeIs(7));

  std::filesystem::remove(ResultPath(kRuns[3]));
  const ChildResult dry = Sweep({"--dry_run"});
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_THAT(dry.out, ::testing::ContainsRegex("none-seed1 +done\n(.|\n)*none-seed2 +to run\n"));
  EXPECT_FALSE(std::filesystem::exists(ResultPath(kRuns[3])));
  const ChildResult third = Sweep();
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(third.err, AllOf(StartsWith("5 of 6 runs are finished already\n"), HasSubstr("\n[6/6] none, seed 2")));
  for (const size_t kept : {0, 1, 2, 4, 5}) {
    EXPECT_EQ(ResultFile(kRuns[kept]), files[kept]) << kRuns[kept];
  }
  EXPECT_TRUE(std::filesystem::exists(ResultPath(kRuns[3])));

  // Other data: every run is another one.
  std::filesystem::copy_file(files_.folder + "/nonlabel_party.data", files_.folder + "/label_party.data",
                             std::filesystem::copy_options::overwrite_existing);
  const std::vector<std::string> states = absl::StrSplit(Sweep({"--dry_run"}).out, '\n', absl::SkipEmpty());
  EXPECT_THAT(states, SizeIs(6));
  EXPECT_THAT(states, Each(HasSubstr("to run: the result there is of another configuration")));
}

TEST_F(SweepTest, NoGradientLeavesAFrozenRunAndEveryProtectionIsSetBesideIt) {
  files_.label_agreement.set_epochs(2);
  // Even where each step would disclose a clean gradient.
  ASSERT_EQ(files_.label_agreement.audit().disclosure(), v1::ORACLE);
  WriteBase();
  WriteGrid("marvell_s: 4 seeds: 1");
  const ChildResult sweep = Sweep({"--jobs=1"});
  ASSERT_EQ(sweep.exit_code, 0) << sweep.err;
  const auto frozen = nlohmann::json::parse(ReadWholeFile(ResultPath("frozen-seed1")), nullptr, false);
  EXPECT_EQ(frozen["gate"], nlohmann::json({{"freeze_bottom", frozen["steps"]}}));
  EXPECT_EQ(frozen["frozen_after_epoch"], 0);
  EXPECT_TRUE(frozen["leak"].empty()) << frozen["leak"];
  // At the other end of the wire: answers without gradients, from the first batch on.
  const auto none = nlohmann::json::parse(ReadWholeFile(ResultPath("none-seed1")), nullptr, false);
  const double gradient_bytes = 4.0 * files_.label_agreement.cut_width() * none.value("aligned_examples", 0.0);
  EXPECT_GT(none.value("bytes_sent", 0.0), gradient_bytes);
  EXPECT_LT(frozen.value("bytes_sent", 1e9), none.value("bytes_sent", 0.0) - gradient_bytes);

  const std::vector<std::string> lines = CsvLines();
  ASSERT_THAT(lines, SizeIs(4));
  const std::vector<std::string> header = absl::StrSplit(lines[0], ',');
  const auto column = [&](const std::string& line, const std::string& name) {
    // The verdict's comma is quoted.
    const std::vector<std::string> cells = absl::StrSplit(absl::StrReplaceAll(line, {{"claimed, ", "claimed "}}), ',');
    return cells[static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin())];
  };
  for (const std::string& line : {lines[1], lines[2], lines[3]}) {
    EXPECT_NEAR(std::stod(column(line, "frozen_test_auc")), frozen.value("test_auc", 0.0), 1e-6) << line;
    EXPECT_NEAR(std::stod(column(line, "none_test_auc")), none.value("test_auc", 0.0), 1e-6) << line;
    // What the run itself is ranked by, in the RESULT line: the ledger says the same.
    const auto result = nlohmann::json::parse(ReadWholeFile(ResultPath(column(line, "run"))), nullptr, false);
    ASSERT_TRUE(result.contains("strongest")) << line;
    const nlohmann::json& strongest = result["strongest"];
    EXPECT_EQ(strongest.is_null(), column(line, "protection") == "frozen") << line;
    EXPECT_EQ(column(line, "strongest_auc").empty(), strongest.is_null()) << line;
    if (!strongest.is_null()) {
      EXPECT_NEAR(std::stod(column(line, "strongest_auc")), strongest.value("auc", 0.0), 1e-6) << line;
      EXPECT_EQ(absl::StartsWith(column(line, "bound"), "exceeded"),
                absl::StartsWith(result.value("bound_state", ""), "exceeded"))
          << line;
    }
  }
  EXPECT_THAT(sweep.out, HasSubstr("Training the bottom model"));
}

TEST_F(SweepTest, AConfigurationErrorIsReportedBeforeAnyRun) {
  WriteBase();
  WriteGrid("marvell_s: 4 protection { name: \"bad\" config { iso { t: 0 } } } seeds: 1");
  ChildResult result = Sweep();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("sweep.textproto:4:"));
  EXPECT_THAT(result.err, HasSubstr("protection[0].config.iso.t: expected"));
  EXPECT_FALSE(std::filesystem::exists(Out() + "/runs"));

  WriteGrid("marvell_s: 4 seeds: 1");
  std::filesystem::remove(files_.folder + "/nonlabel_party.key");  // What only the party itself looks at.
  result = Sweep();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("nonlabel_party.key"));
  EXPECT_FALSE(std::filesystem::exists(Out() + "/runs"));
  EXPECT_FALSE(std::filesystem::exists(Out() + "/check"));
}

TEST_F(SweepTest, AFailingRunIsNamedAndTheOthersGoOn) {
  // The gate lets only strong noise pass.
  files_.label_config.mutable_release()->set_max_step_auc_bound(0.9);
  files_.label_config.mutable_release()->set_action(v1::HALT);
  WriteBase();
  WriteGrid("marvell_s: [0.01, 25] seeds: 1");
  const ChildResult result = Sweep();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("marvell s=0.01, seed 1: FAILED"));
  EXPECT_THAT(result.err, HasSubstr("failed: marvell-s=0.01-seed1: "));
  EXPECT_THAT(result.err, HasSubstr("_party ended with exit code 5: "));
  EXPECT_THAT(result.err, HasSubstr("1 of 4 runs failed"));
  EXPECT_FALSE(std::filesystem::exists(ResultPath("marvell-s=0.01-seed1")));
  EXPECT_TRUE(std::filesystem::exists(ResultPath("marvell-s=25-seed1")));
  EXPECT_TRUE(std::filesystem::exists(ResultPath("none-seed1")));  // The policy is not about the references.
  EXPECT_THAT(CsvLines(), SizeIs(4));
  EXPECT_THAT(ReadWholeFile(Out() + "/tradeoff.html"), HasSubstr("3 of 4 runs finished"));
}

// Processes with `text` in their command line.
std::vector<std::string> ProcessesWith(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string command = ReadWholeFile(entry.path().string() + "/cmdline");
    if (command.find(text) != std::string::npos) {
      found.push_back(command);
    }
  }
  return found;
}

TEST_F(SweepTest, AnInterruptLeavesNoProcessAndTheNextSweepGoesOn) {
  files_.label_agreement.set_epochs(100000);
  WriteBase();
  WriteGrid("marvell_s: 4 seeds: 1");
  for (const int signal : {SIGTERM, SIGKILL}) {
    RunningProgram sweep("splitveil", Arguments({"--jobs=1"}), files_.folder);
    const std::string log = Out() + "/runs/none-seed1/nonlabel_party.log";
    while (ReadWholeFile(log).find("training") == std::string::npos) {
      ASSERT_EQ(sweep.Wait(absl::Milliseconds(20)), -1) << sweep.Errors();
    }
    EXPECT_THAT(ProcessesWith("--config=" + Out()), SizeIs(2));
    EXPECT_EQ(Sweep().exit_code, 2);  // The folder is taken.
    sweep.Signal(signal);
    EXPECT_EQ(sweep.Wait(absl::Seconds(30)), signal == SIGTERM ? 1 : 128 + SIGKILL);
    if (signal == SIGTERM) {
      EXPECT_THAT(ProcessesWith("--config=" + Out()), IsEmpty());
      EXPECT_THAT(sweep.Errors(), HasSubstr("stopped on request with 3 of 3 runs missing"));
    }
    std::filesystem::remove(log);  // The second round waits for its own.
  }
  // The kernel kills the children of the killed sweep; it may take a moment.
  for (int i = 0; i < 1000 && !ProcessesWith("--config=" + Out()).empty(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_THAT(ProcessesWith("--config=" + Out()), IsEmpty());
  files_.label_agreement.set_epochs(1);
  WriteBase();
  const ChildResult resumed = Sweep();
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

}  // namespace
}  // namespace splitveil::testing
