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

constexpr double kMbps = 100;
constexpr double kWithHeaders = 1538. / 1448;  // What a full frame takes on the link, over what it carries.

class LinkBench : public ::testing::TestWithParam<std::tuple<double, int>> {};

TEST_P(LinkBench, ShareOfALinkOf40Ms) {
  if (const std::string missing = EmulatedNetwork::Missing(); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  const auto& [loss_percent, most_in_flight] = GetParam();
  TwoPartyRun run(/*rows=*/1000000);
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_cut_width(64);
    agreement->set_batch_size(1024);
    agreement->set_epochs(1);
    agreement->set_wire_dtype(v1::BFLOAT16);
    agreement->set_in_flight_batches(0);
    agreement->set_max_in_flight_batches(most_in_flight);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run.nonlabel_config.mutable_model()->mutable_layers()->rbegin()->set_units(64);
  run.label_config.set_listen_address("0.0.0.0:0");
  run.label_host = EmulatedNetwork::kLabelAddress;
  const EmulatedNetwork network({.round_trip_ms = 40, .mbps = kMbps, .loss_percent = loss_percent});
  network.EnterLabel();
  run.StartLabelParty();
  network.EnterNonLabel();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const auto value = [&](const std::string& query) { return LedgerValue(run.ledger("label_party"), query); };
  // Each direction carries as much; both are counted.
  const double bits = 8 * std::atof(value("SELECT sum(bytes_sent + bytes_received) / 2.0 FROM step").c_str());
  const double seconds = std::atof(value("SELECT sum(seconds) FROM step").c_str());
  ASSERT_GT(seconds, 0);
  const double share = bits / seconds / (1e6 * kMbps);
  std::cout << absl::StrFormat(
      "%.1f%% lost, at most %d in flight: %s; %.0f%% of the link, %.0f%% with the headers of TCP/IP and Ethernet, "
      "%.1f s; test AUC %s\n",
      loss_percent, most_in_flight,
      LedgerValue(run.ledger("nonlabel_party"), "SELECT detail FROM event WHERE kind = 'in_flight_batches'"),
      100 * share, 100 * share * kWithHeaders, seconds, value("SELECT auc FROM evaluation ORDER BY step DESC LIMIT 1"));
}

INSTANTIATE_TEST_SUITE_P(LossAndMost, LinkBench,
                         ::testing::Combine(::testing::Values(0.0, 0.1), ::testing::Values(8, 16, 32)));

}  // namespace
}  // namespace splitveil::testing
