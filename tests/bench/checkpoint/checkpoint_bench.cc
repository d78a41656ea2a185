// What checkpoints every 100 steps take of training, both programs' part, and what the journal takes that is written at
// every step where there are checkpoints: runs with and without them by turns. A small model's steps are short, which
// makes the shares large ones.
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <vector>

#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

constexpr int kCheckpointSteps = 100;
constexpr int kRounds = 5;

double Number(TwoPartyRun& run, const std::string& party, const std::string& query) {
  return std::atof(LedgerValue(run.ledger(party), query).c_str());
}

enum class Writes { kNothing, kJournal, kCheckpoints };  // Each what those before it do, too.

// Of one run's steps. Epochs end with a checkpoint where there are any, which is no part of a step.
double SecondsOfSteps(Writes writes) {
  TwoPartyRun run(/*rows=*/30000);
  for (v1::RunAgreement* const agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_checkpoint_steps(writes == Writes::kCheckpoints ? kCheckpointSteps : 0);
    agreement->set_epochs(12);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  if (writes != Writes::kNothing) {
    run.label_config.mutable_party()->set_checkpoint_path("label.checkpoint");
    run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel.checkpoint");
  }
  run.StartLabelParty();
  run.StartNonLabelParty();
  EXPECT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  const double steps = Number(run, "label_party", "SELECT count(*) FROM step");
  const double seconds = Number(run, "label_party", "SELECT sum(seconds) FROM step");
  std::cout << steps << " steps of " << 1000 * seconds / steps << " ms";
  for (const char* const party : {"label_party", "nonlabel_party"}) {
    const std::string within_epochs = " FROM event WHERE kind = 'checkpoint' AND detail LIKE '% batches, %'";
    const double checkpoints = Number(run, party, "SELECT count(*)" + within_epochs);
    EXPECT_EQ(checkpoints > 0, writes == Writes::kCheckpoints);
    if (checkpoints > 0) {
      std::cout << "; " << party << ": " << checkpoints << " checkpoints, on the disk after "
                << 1000 * Number(run, party,
                                 "SELECT avg(CAST(substr(detail, instr(detail, ', in ') + 5) AS REAL))" + within_epochs)
                << " ms";
    }
  }
  std::cout << "\n";
  return seconds;
}

void PrintShare(const char* what, std::vector<double> shares) {
  std::sort(shares.begin(), shares.end());
  std::cout << what << ": " << 100 * shares[shares.size() / 2] << "% more (median of " << shares.size() << " rounds, "
            << 100 * shares.front() << " to " << 100 * shares.back() << ")\n";
}

TEST(CheckpointBench, EveryHundredSteps) {
  std::vector<double> journal, checkpoints;
  for (int round = 0; round < kRounds; ++round) {
    const double nothing = SecondsOfSteps(Writes::kNothing);
    const double with_journal = SecondsOfSteps(Writes::kJournal);
    const double with_checkpoints = SecondsOfSteps(Writes::kCheckpoints);
    ASSERT_GT(nothing, 0);
    ASSERT_GT(with_journal, 0);
    journal.push_back(with_journal / nothing - 1);
    checkpoints.push_back(with_checkpoints / with_journal - 1);
  }
  PrintShare("journal of answers, against none", journal);
  PrintShare("checkpoints every 100 steps, against one an epoch", checkpoints);
}

}  // namespace
}  // namespace splitveil::testing
