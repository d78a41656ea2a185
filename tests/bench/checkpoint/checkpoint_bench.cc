// What checkpoints every 100 steps take of a run, both programs' part, measured in that run: its ledgers say how long
// each took. A small model's steps are short, which makes the share a large one.
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>

#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

constexpr int kCheckpointSteps = 100;

TEST(CheckpointBench, EveryHundredSteps) {
  TwoPartyRun run(/*rows=*/60000);
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_checkpoint_steps(kCheckpointSteps);
    agreement->set_epochs(6);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  run.label_config.mutable_party()->set_checkpoint_path("label.checkpoint");
  run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel.checkpoint");
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const auto number = [&](const std::string& party, const std::string& query) {
    return std::atof(LedgerValue(run.ledger(party), query).c_str());
  };
  const double steps = number("label_party", "SELECT count(*) FROM step");
  // Between the checkpoint that the alignment leaves and the last one, but for the evaluations.
  const double seconds = number("label_party", "SELECT sum(seconds) FROM step");
  ASSERT_GT(steps, 0);
  double taken = 0;
  std::cout << steps << " steps of " << 1000 * seconds / steps << " ms\n";
  for (const char* const party : {"label_party", "nonlabel_party"}) {
    const std::string of_training = " FROM event WHERE kind = 'checkpoint' AND detail NOT LIKE 'of 0 epochs, %'";
    const double checkpoints = number(party, "SELECT count(*)" + of_training);
    const double in_them =
        number(party, "SELECT sum(CAST(substr(detail, instr(detail, ', in ') + 5) AS REAL))" + of_training);
    ASSERT_GE(checkpoints, steps / kCheckpointSteps - 6);
    ASSERT_GT(in_them, 0);
    std::cout << party << ": " << checkpoints << " checkpoints of " << 1000 * in_them / checkpoints << " ms\n";
    taken += in_them;
  }
  std::cout << "all checkpoints of both: " << 100 * taken / seconds << "% of the steps' time\n";
}

}  // namespace
}  // namespace splitveil::testing
