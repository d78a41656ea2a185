// What the second head of gaussian_label_dp costs a run whose parties are not on one machine: its own processor time is
// the label party's alone, and the peer waits for it only where it is still at work when the next batch has come. On
// one machine (`bench_training --benchmark_filter=gaussian_label_dp`) both parties' work shares the processors
// throughout.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "tests/testing/process/tcp_proxy.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

constexpr int kTurns = 3;
constexpr int kBatch = 1024;

// Examples per second of Wide & Deep, batches of 1,024, one in flight, the network of `bench_training`.
double ExamplesPerSecond(double round_trip_ms, bool second_head) {
  TcpProxy far(absl::Milliseconds(round_trip_ms / 2));
  TwoPartyRun run(/*rows=*/64'000);
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_cut_layer("third");
    agreement->set_cut_width(128);
    agreement->set_batch_size(kBatch);
    agreement->set_epochs(6);
    agreement->set_in_flight_batches(1);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run.label_config.clear_model();
  run.label_config.mutable_model()->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  run.nonlabel_config.clear_model();
  run.nonlabel_config.mutable_model()->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  run.label_config.mutable_label_side_audit()->add_attacks(v1::NORM);  // One that costs next to nothing.
  run.label_config.mutable_label_side_audit()->set_every_batches(1'000'000);
  if (second_head) {
    run.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_max_run_auc_bound(0.7);
    run.label_config.mutable_privacy_account()->set_path("privacy_account.db");
    run.label_config.mutable_privacy_account()->set_label_set("benchmark");
  }
  run.StartLabelParty();
  far.ForwardTo(run.label_port);
  run.label_port = far.port();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(absl::Minutes(3)), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const double speed =
      std::atof(LedgerValue(run.ledger("nonlabel_party"), "SELECT sum(examples) / sum(seconds) FROM step").c_str());
  EXPECT_GT(speed, 0);
  return speed;
}

class SecondHeadBench : public ::testing::TestWithParam<double> {};

TEST_P(SecondHeadBench, CostOverALink) {
  std::vector<double> none, ratios;
  for (int turn = 0; turn < kTurns; ++turn) {
    none.push_back(ExamplesPerSecond(GetParam(), /*second_head=*/false));
    ratios.push_back(ExamplesPerSecond(GetParam(), /*second_head=*/true) / none.back());
  }
  std::sort(none.begin(), none.end());
  EXPECT_LE(none.back() * GetParam(), 1000 * kBatch) << "a batch did not wait for a round trip";
  std::sort(ratios.begin(), ratios.end());
  std::cout << absl::StrFormat(
      "round trip %g ms: without protection %.0f examples per second; two heads over that: %.2f (%.2f to %.2f)\n",
      GetParam(), none[kTurns / 2], ratios[kTurns / 2], ratios.front(), ratios.back());
}

INSTANTIATE_TEST_SUITE_P(RoundTripMilliseconds, SecondHeadBench, ::testing::Values(0, 2, 5, 10));

}  // namespace
}  // namespace splitveil::testing
