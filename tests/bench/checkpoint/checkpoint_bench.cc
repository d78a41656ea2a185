// What checkpoints within an epoch take of training, and what the journal takes that is written at every step where
// there are checkpoints: both programs on this machine.
//
// A checkpoint's price is what the steps after it take more than those before it, in one and the same run: equal runs
// differ by more than that. The journal's is the difference of runs with and without it, by turns.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "common/ledger/ledger_reader.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

constexpr uint32_t kCheckpointSteps = 50;
constexpr size_t kWindow = 25;  // Steps: by then a checkpoint is on the disk.
constexpr int kRounds = 5;

struct MeanAndError {
  double mean = 0, standard_error = 0;
};

MeanAndError MeanOf(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  MeanAndError result;
  for (const double value : values) {
    result.mean += value / count;
  }
  for (const double value : values) {
    result.standard_error += (value - result.mean) * (value - result.mean);
  }
  result.standard_error = std::sqrt(result.standard_error / (count * (count - 1)));
  return result;
}

// A small model, whose steps are short and which makes shares large ones.
std::unique_ptr<TwoPartyRun> SmallRun(int rows) {
  auto run = std::make_unique<TwoPartyRun>(rows);
  for (v1::RunAgreement* const agreement : {&run->label_agreement, &run->nonlabel_agreement}) {
    agreement->set_epochs(12);
    agreement->mutable_audit()->clear_layers();
    agreement->mutable_audit()->clear_attacks();
    agreement->mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  }
  run->label_config.mutable_protection()->mutable_marvell()->set_s(4);
  return run;
}

// The model, the batches and the attacks of deploy/demo, and as many examples.
std::unique_ptr<TwoPartyRun> DemoRun() {
  auto run = std::make_unique<TwoPartyRun>(/*rows=*/137'000);
  for (v1::RunAgreement* const agreement : {&run->label_agreement, &run->nonlabel_agreement}) {
    agreement->set_epochs(20);
    agreement->set_batch_size(1024);
    agreement->set_cut_width(128);
    agreement->set_cut_layer("third");
    agreement->mutable_deadlines()->set_alignment_chunk_seconds(300);
    v1::AuditAgreement& audit = *agreement->mutable_audit();
    audit.clear_attacks();
    for (const v1::Attack attack :
         {v1::NORM, v1::RESIDUAL_NORM, v1::MAJORITY_DIRECTION, v1::SPECTRAL, v1::GRADIENT_CLUSTERS,
          v1::CUMULATIVE_SPECTRAL, v1::FACTOR_ANALYSIS, v1::SURROGATE_HEAD, v1::CUMULATIVE_SURROGATE_HEAD, v1::UNSPLIT,
          v1::ACTIVATION_CLUSTERS, v1::COSINE}) {
      audit.add_attacks(attack);
    }
  }
  for (v1::ModelSpec* const model : {run->label_config.mutable_model(), run->nonlabel_config.mutable_model()}) {
    model->Clear();
    model->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  }
  run->label_config.mutable_protection()->mutable_marvell()->set_s(4);
  return run;
}

// With `checkpoint_steps` > 0, a checkpoint every so many steps; without, none but those of whole epochs.
void WriteCheckpoints(TwoPartyRun& run, uint32_t checkpoint_steps) {
  run.label_agreement.set_checkpoint_steps(checkpoint_steps);
  run.nonlabel_agreement.set_checkpoint_steps(checkpoint_steps);
  run.label_config.mutable_party()->set_checkpoint_path("label.checkpoint");
  run.nonlabel_config.mutable_party()->set_checkpoint_path("nonlabel.checkpoint");
}

void Train(TwoPartyRun& run) {
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_EQ(run.nonlabel->Wait(absl::Minutes(9)), 0) << run.nonlabel->Errors();
  ASSERT_EQ(run.label->Wait(), 0) << run.label->Errors();
}

struct Recorded {
  std::vector<StepRow> steps;
  std::vector<EventRecord> events;
};

Recorded ReadLedger(const TwoPartyRun& run, const std::string& party) {
  const std::unique_ptr<LedgerReader> ledger = *LedgerReader::Open(run.ledger(party));
  const std::string run_id = (*ledger->Runs()).at(0).run.run_id;
  return {*ledger->Steps(run_id), *ledger->Events(run_id)};
}

double SecondsOf(const std::vector<StepRow>& steps, size_t begin, size_t end) {
  double seconds = 0;
  for (size_t i = begin; i < end; ++i) {
    seconds += steps[i].seconds;
  }
  return seconds;
}

// The step before which a checkpoint within an epoch was written; false for another event.
bool PlaceOf(const EventRecord& event, const std::vector<StepRow>& steps, size_t& place) {
  const std::vector<std::string> words = absl::StrSplit(event.detail, ' ');  // "of 2 epochs and 300 batches, in ...".
  uint32_t epoch = 0, batch = 0;
  if (event.kind != "checkpoint" || words.size() < 6 || words[5] != "batches," || !absl::SimpleAtoi(words[1], &epoch) ||
      !absl::SimpleAtoi(words[4], &batch)) {
    return false;
  }
  const auto step = std::find_if(steps.begin(), steps.end(),
                                 [&](const StepRow& row) { return row.epoch == epoch && row.batch == batch; });
  place = static_cast<size_t>(std::distance(steps.begin(), step));
  return true;
}

// What each checkpoint within an epoch took, seconds, where kWindow steps of the epoch lie on both sides of it; and a
// step without.
struct Prices {
  std::vector<double> checkpoints, steps;
};

Prices PricesIn(const Recorded& recorded) {
  const std::vector<StepRow>& steps = recorded.steps;
  Prices prices;
  for (const EventRecord& event : recorded.events) {
    size_t place = 0;
    if (!PlaceOf(event, steps, place) || place < kWindow + 1 || place + kWindow > steps.size() ||
        steps[place - kWindow - 1].epoch != steps[place + kWindow - 1].epoch) {  // An epoch's first step waits for it.
      continue;
    }
    const double before = SecondsOf(steps, place - kWindow, place);
    prices.checkpoints.push_back(SecondsOf(steps, place, place + kWindow) - before);
    prices.steps.push_back(before / kWindow);
  }
  return prices;
}

void PrintPrices(TwoPartyRun& run) {
  WriteCheckpoints(run, kCheckpointSteps);
  ASSERT_NO_FATAL_FAILURE(Train(run));
  for (const char* const party : {"label_party", "nonlabel_party"}) {
    const Prices prices = PricesIn(ReadLedger(run, party));
    ASSERT_GT(prices.checkpoints.size(), 5);
    const MeanAndError checkpoint = MeanOf(prices.checkpoints), step = MeanOf(prices.steps);
    std::cout << party << ": a step " << 1000 * step.mean << " ms, a checkpoint " << 1000 * checkpoint.mean << " +- "
              << 1000 * checkpoint.standard_error << " ms (mean of " << prices.checkpoints.size()
              << " and its standard error); every 100 steps " << checkpoint.mean / step.mean << " +- "
              << checkpoint.standard_error / step.mean << " %\n";
  }
}

TEST(CheckpointBench, CheckpointsOfTheDemo) { PrintPrices(*DemoRun()); }

TEST(CheckpointBench, CheckpointsOfASmallModel) { PrintPrices(*SmallRun(/*rows=*/100'000)); }

double SecondsOfSteps(bool with_journal) {
  const std::unique_ptr<TwoPartyRun> run = SmallRun(/*rows=*/30'000);
  if (with_journal) {
    WriteCheckpoints(*run, 0);
  }
  Train(*run);
  const std::vector<StepRow> steps = ReadLedger(*run, "label_party").steps;
  return SecondsOf(steps, 0, steps.size());
}

TEST(CheckpointBench, JournalOfASmallModel) {
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    const double without = SecondsOfSteps(false), with = SecondsOfSteps(true);
    ASSERT_GT(without, 0);
    shares.push_back(with / without - 1);
  }
  std::sort(shares.begin(), shares.end());
  std::cout << "journal of answers: " << 100 * shares[kRounds / 2] << "% more (median of " << kRounds << " rounds, "
            << 100 * shares.front() << " to " << 100 * shares.back() << ")\n";
}

}  // namespace
}  // namespace splitveil::testing
