// Both programs over a network that falls apart and comes together again, under the transport: nobody is told, packets
// just stop. Needs root, and SPLITVEIL_WAN_EMULATOR: a program that connects network namespaces,
// `PROGRAM NAMESPACE:DEVICE:ADDRESS/BITS:DELAY_MS:JITTER_MS:MBIT:LOSS_PERCENT ...`, prints "ready" and then reads
// `down PORT` and `up PORT` on standard input. SPLITVEIL_PARTITION_RUNS=20 asks for more runs.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

constexpr char kNoticed[] = "SELECT count(*) FROM event WHERE kind IN ('interrupted', 'stalled')";

// Two namespaces, for one process of tests at a time, and what connects them.
class PartedNetwork {
 public:
  explicit PartedNetwork(const std::string& emulator) {
    for (const std::string& side : {label_, nonlabel_}) {
      Run("ip netns add " + side);
      Run("ip -n " + side + " link set lo up");
    }
    // 5 ms either way, 100 Mbit/s, nothing lost.
    commands_ = popen(absl::StrFormat("%s %s:wan0:%s/24:5:0:100:0 %s:wan0:10.97.31.2/24:5:0:100:0 >%s", emulator,
                                      label_, kLabelAddress, nonlabel_, files_.File("emulator"))
                          .c_str(),
                      "w");
    for (const SteadyTime deadline = SteadyAfter(absl::Seconds(20));
         ReadWholeFile(files_.File("emulator")).find("ready") == std::string::npos && SteadyNow() < deadline;) {
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  ~PartedNetwork() {
    EnterNamespaceOf(own_);
    Send("quit");
    pclose(commands_);
    Run("ip netns delete " + label_);
    Run("ip netns delete " + nonlabel_);
    close(own_);
  }
  PartedNetwork(const PartedNetwork&) = delete;
  PartedNetwork& operator=(const PartedNetwork&) = delete;

  // What this thread starts from now on is there.
  void EnterLabel() const { Enter(label_); }
  void EnterNonLabel() const { Enter(nonlabel_); }
  void Part(absl::Duration length) {
    Send("down 1");
    absl::SleepFor(length);
    Send("up 1");
  }

  static constexpr char kLabelAddress[] = "10.97.31.1";

 private:
  static void Run(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }
  static void EnterNamespaceOf(int descriptor) { EXPECT_EQ(setns(descriptor, CLONE_NEWNET), 0); }
  static void Enter(const std::string& name) {
    const int descriptor = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    EnterNamespaceOf(descriptor);
    close(descriptor);
  }
  void Send(const char* command) {
    std::fprintf(commands_, "%s\n", command);
    std::fflush(commands_);
  }

  const int own_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const TempFolder files_;
  const std::string label_ = absl::StrCat("splitveil-l", getpid()), nonlabel_ = absl::StrCat("splitveil-n", getpid());
  std::FILE* commands_ = nullptr;
};

class PartitionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const emulator = std::getenv("SPLITVEIL_WAN_EMULATOR");
    if (emulator == nullptr || geteuid() != 0) {
      GTEST_SKIP() << "SPLITVEIL_WAN_EMULATOR names no program that connects network namespaces, or this is not root";
    }
    network_ = std::make_unique<PartedNetwork>(emulator);
  }

  // Long enough to fall apart in: some seconds.
  static std::unique_ptr<InterruptedRun> MakeRun() {
    auto run = std::make_unique<InterruptedRun>(/*in_flight_batches=*/1, /*rows=*/8000);
    run->ForBoth([](v1::RunAgreement& agreement) { agreement.set_batch_size(64); });
    run->run.label_config.set_listen_address("0.0.0.0:0");
    run->run.label_host = PartedNetwork::kLabelAddress;
    return run;
  }

  void Start(InterruptedRun& run) const {
    const Environment repeatable("LD_PRELOAD", FIXED_RANDOMNESS);
    network_->EnterLabel();
    run.run.StartLabelParty();
    network_->EnterNonLabel();
    run.run.StartNonLabelParty();
  }

  std::unique_ptr<PartedNetwork> network_;
};

TEST_F(PartitionsTest, WheneverTheNetworkFallsApartTheRunIsTheSame) {
  const char* const runs = std::getenv("SPLITVEIL_PARTITION_RUNS");
  const std::unique_ptr<InterruptedRun> quiet = MakeRun();
  Start(*quiet);
  const Remains expected = quiet->Finish();
  int noticed = 0;
  for (unsigned seed = 1; seed <= (runs == nullptr ? 2U : static_cast<unsigned>(std::atoi(runs))); ++seed) {
    std::mt19937 draw(seed);
    const std::unique_ptr<InterruptedRun> run = MakeRun();
    Start(*run);
    // From the alignment on; the first one of a run, of 6 s, once it trains.
    if (seed % 2 == 0) {
      network_->Part(absl::Milliseconds(1000 + draw() % 5000));
    }
    ASSERT_TRUE(run->run.nonlabel->WaitForError("training")) << run->run.nonlabel->Errors();
    absl::SleepFor(absl::Milliseconds(300 + draw() % 700));
    ASSERT_FALSE(run->run.nonlabel->HasEnded()) << "nothing is left to be disturbed";
    network_->Part(absl::Milliseconds(6000));
    absl::SleepFor(absl::Milliseconds(draw() % 1000));
    network_->Part(absl::Milliseconds(1000 + draw() % 5000));
    const Remains found = run->Finish();
    EXPECT_TRUE(found == expected) << "seed " << seed << "\n" << found.losses << "\n" << expected.losses;
    for (const std::string& told : {run->Label(kNoticed), run->NonLabel(kNoticed)}) {
      EXPECT_GE(std::stoi(told), 1) << "seed " << seed << "\n" << run->run.label->Errors();
      noticed += std::stoi(told);
    }
    EXPECT_THAT(run->run.label->Errors(), ::testing::ContainsRegex("after [0-9.]+ s without the non-label party"));
    EXPECT_THAT(run->run.nonlabel->Errors(), ::testing::ContainsRegex("after [0-9.]+ s without the label party"));
  }
  std::cout << noticed << " interruptions and stalls named\n";
}

}  // namespace
}  // namespace splitveil::testing
