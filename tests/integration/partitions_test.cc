// Both programs over a network that falls apart and comes together again, under the transport: nobody is told, packets
// just stop. Needs what emulated_network.h says. SPLITVEIL_PARTITION_RUNS=20 asks for more runs.
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iostream>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/integration/interrupted_run.h"
#include "tests/testing/process/emulated_network.h"

namespace splitveil::testing {
namespace {

constexpr char kNoticed[] = "SELECT count(*) FROM event WHERE kind IN ('interrupted', 'stalled')";

class PartitionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string missing = EmulatedNetwork::Missing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    network_ = std::make_unique<EmulatedNetwork>(EmulatedLink{.round_trip_ms = 20, .mbps = 100});
  }

  // Long enough to fall apart in: some seconds.
  static std::unique_ptr<InterruptedRun> MakeRun() {
    auto run = std::make_unique<InterruptedRun>(/*in_flight_batches=*/1, /*rows=*/8000);
    run->ForBoth([](v1::RunAgreement& agreement) { agreement.set_batch_size(64); });
    run->run.label_config.set_listen_address("0.0.0.0:0");
    run->run.label_host = EmulatedNetwork::kLabelAddress;
    return run;
  }

  void Start(InterruptedRun& run) const {
    const Environment repeatable("LD_PRELOAD", FIXED_RANDOMNESS);
    network_->EnterLabel();
    run.run.StartLabelParty();
    network_->EnterNonLabel();
    run.run.StartNonLabelParty();
  }

  std::unique_ptr<EmulatedNetwork> network_;
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
