// How much of a far link a run uses with `in_flight_batches: 0`, without and with lost packets, by the most that are
// agreed. Needs what emulated_network.h says.
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <tuple>

#include "absl/strings/str_format.h"

#include "tests/testing/process/emulated_network.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

constexpr int kRows = 1'000'000;
constexpr double kMbps = 100;
constexpr double kWithHeaders = 1538. / 1448;  // What a full frame takes on the link, over what it carries.

// One that is far longer than its start.
void Describe(int most_in_flight, TwoPartyRun& run) {
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_cut_width(64);
    agreement->set_batch_size(1024);
    agreement->set_epochs(3);
    agreement->set_wire_dtype(v1::BFLOAT16);
    agreement->set_in_flight_batches(0);
    agreement->set_max_in_flight_batches(most_in_flight);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run.nonlabel_config.mutable_model()->mutable_layers()->rbegin()->set_units(64);
}

std::string InFlight(const TwoPartyRun& run) {
  return LedgerValue(run.ledger("nonlabel_party"), "SELECT detail FROM event WHERE kind = 'in_flight_batches'");
}

// After each epoch.
std::string TestAucs(const TwoPartyRun& run) {
  return LedgerValue(run.ledger("label_party"),
                     "SELECT group_concat(round(auc, 4), ' ') FROM evaluation WHERE split = 'test' ORDER BY step");
}

class LinkBench : public ::testing::TestWithParam<std::tuple<double, int>> {};

TEST_P(LinkBench, ShareOfALinkOf40Ms) {
  if (const std::string missing = EmulatedNetwork::Missing(); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const auto& [loss_percent, most_in_flight] = GetParam();
  TwoPartyRun run(kRows);
  Describe(most_in_flight, run);
  run.label_config.set_listen_address("0.0.0.0:0");
  run.label_host = EmulatedNetwork::kLabelAddress;
  const EmulatedNetwork network({.round_trip_ms = 40, .mbps = kMbps, .loss_percent = loss_percent});
  network.EnterLabel();
  run.StartLabelParty();
  network.EnterNonLabel();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const auto value = [&](const char* query) {
    return std::atof(LedgerValue(run.ledger("label_party"), query).c_str());
  };
  // Each direction carries as much; both are counted.
  const double bits = 8 * value("SELECT sum(bytes_sent + bytes_received) / 2.0 FROM step");
  const double seconds = value("SELECT sum(seconds) FROM step");
  ASSERT_GT(seconds, 0);
  const double share = bits / seconds / (1e6 * kMbps);
  std::cout << absl::StrFormat(
      "%.1f%% lost, at most %d in flight: %s; %.0f%% of the link, %.0f%% with the headers of TCP/IP and Ethernet, "
      "%.1f s; test AUC %s\n",
      loss_percent, most_in_flight, InFlight(run), 100 * share, 100 * share * kWithHeaders, seconds, TestAucs(run));
}

// What the same run reaches where no link holds it up, and few batches are in flight.
TEST(LoopbackBench, TestAuc) {
  TwoPartyRun run(kRows);
  Describe(/*most_in_flight=*/32, run);
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  std::cout << "loopback: " << InFlight(run) << "; test AUC " << TestAucs(run) << "\n";
}

INSTANTIATE_TEST_SUITE_P(LossAndMost, LinkBench,
                         ::testing::Combine(::testing::Values(0.0, 0.1), ::testing::Values(8, 16, 32)));

}  // namespace
}  // namespace splitveil::testing
