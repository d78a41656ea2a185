// Both programs through a network on its worst day, seeded: connections are reset, held up, and what passes is damaged
// or comes twice. However many faults, what is left is what the undisturbed run leaves. SPLITVEIL_SOAK_FAULTS=500 asks
// for more of them, SPLITVEIL_SOAK_SEED=7 for others.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "tests/integration/interrupted_run.h"

namespace splitveil::testing {
namespace {

constexpr int kFaultsOfARun = 10;

int FromEnvironment(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

// Faults that come while a run of `bytes` trains, after those `before` it, of every kind.
std::vector<TcpProxy::Fault> DrawFaults(std::mt19937& draw, int64_t before, int64_t bytes) {
  std::vector<TcpProxy::Fault> faults;
  for (int i = 0; i < kFaultsOfARun; ++i) {
    TcpProxy::Fault fault;
    fault.after_bytes = 1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(bytes / kFaultsOfARun));
    fault.kind = static_cast<TcpProxy::FaultKind>(draw() % 4);
    fault.delay_millis = static_cast<int>(draw() % 300);
    faults.push_back(fault);
  }
  faults.front().after_bytes += before;
  return faults;
}

TEST(SoakTest, WhateverTheNetworkDoesTheRunIsTheSame) {
  const int wanted = FromEnvironment("SPLITVEIL_SOAK_FAULTS", kFaultsOfARun);
  std::mt19937 draw(static_cast<unsigned>(FromEnvironment("SPLITVEIL_SOAK_SEED", 1)));
  InterruptedRun quiet(/*in_flight_batches=*/2);
  quiet.Start();
  const Remains expected = quiet.Finish();
  const int64_t bytes = std::stoll(quiet.Label("SELECT sum(bytes_sent) + sum(bytes_received) FROM step"));
  int faults = 0, runs = 0, interruptions = 0;
  while (faults < wanted && !::testing::Test::HasFailure()) {
    InterruptedRun run(/*in_flight_batches=*/2);
    run.proxy.FaultAfter(DrawFaults(draw, quiet.BytesBeforeTraining(), bytes));
    run.Start();
    const Remains found = run.Finish();
    EXPECT_TRUE(found == expected) << "run " << runs << "\n" << found.losses << "\n" << expected.losses;
    ASSERT_GT(run.proxy.faults(), 0) << "run " << runs << ": nothing has been disturbed";
    faults += run.proxy.faults();
    interruptions += std::stoi(run.NonLabel(kInterruptions));
    ++runs;
  }
  std::cout << faults << " faults in " << runs << " runs, " << interruptions << " interruptions\n";
}

}  // namespace
}  // namespace splitveil::testing
