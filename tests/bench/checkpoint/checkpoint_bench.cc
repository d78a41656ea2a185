// What checkpoints within an epoch take of training, and what the journal takes that is written at every step where
// there are checkpoints: both programs on this machine.
//
// A checkpoint's price is what the steps after it take more than those before it, in one and the same run: equal runs
// differ by more than that. A run without any, at the same places, says what of it is something else. The price is the
// label party's steps', which wait for the other party: both pay the same one, not each its own. The journal's price is
// the difference of runs with and without it, by turns.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "common/ledger/ledger_reader.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

constexpr int kRounds = 5;

// Where checkpoints are written, and how many steps before and after them are compared. steps >= 2 * window.
struct Places {
  uint32_t steps;
  size_t window;
};

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
std::unique_ptr<TwoPartyRun> SmallRun(int rows, uint32_t epochs) {
  auto run = std::make_unique<TwoPartyRun>(rows);
  for (v1::RunAgreement* const agreement : {&run->label_agreement, &run->nonlabel_agreement}) {
    agreement->set_epochs(epochs);
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
  std::vector<EventRow> events;
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

// When the checkpoint of an event was on the disk, seconds from when it was due; nullopt: of no checkpoint in an epoch.
std::optional<double> SecondsToDisk(const EventRow& event) {
  const std::vector<std::string> words = absl::StrSplit(event.detail, ' ');  // "of 2 epochs and 300 batches, in 0.1 s".
  double seconds = 0;
  const bool is_within_epoch = event.kind == "checkpoint" && words.size() == 9 && words[5] == "batches,";
  return is_within_epoch && absl::SimpleAtod(words[7], &seconds) ? std::optional<double>(seconds) : std::nullopt;
}

// What each checkpoint took, or nothing at its place, seconds, where the window lies in the epoch on both sides,
// without the epoch's first step, which waits for more than a step; and a step without.
struct Prices {
  std::vector<double> checkpoints, steps;
  double shortest_window = std::numeric_limits<double>::infinity();
};

Prices PricesIn(const std::vector<StepRow>& steps, Places places) {
  Prices prices;
  for (size_t place = places.steps; place + places.window <= steps.size(); place += places.steps) {
    if (steps[place - places.window - 1].epoch != steps[place + places.window - 1].epoch) {
      continue;
    }
    const double before = SecondsOf(steps, place - places.window, place);
    const double after = SecondsOf(steps, place, place + places.window);
    prices.checkpoints.push_back(after - before);
    prices.steps.push_back(before / static_cast<double>(places.window));
    prices.shortest_window = std::min(prices.shortest_window, after);
  }
  return prices;
}

void PrintPrices(const char* what, TwoPartyRun& run, Places places, bool writes) {
  WriteCheckpoints(run, writes ? places.steps : 0);
  ASSERT_NO_FATAL_FAILURE(Train(run));
  const Recorded recorded = ReadLedger(run, "label_party");
  const Prices prices = PricesIn(recorded.steps, places);
  ASSERT_GT(prices.checkpoints.size(), 5);
  const MeanAndError price = MeanOf(prices.checkpoints), step = MeanOf(prices.steps);
  std::cout << what << ": a step " << 1000 * step.mean << " ms, each of " << prices.checkpoints.size() << " places "
            << 1000 * price.mean << " +- " << 1000 * price.standard_error << " ms (mean and its standard error), "
            << price.mean / step.mean << " +- " << price.standard_error / step.mean << " % of 100 steps\n";
  int64_t late = 0;  // What is written later than the window is paid for by steps that nobody looks at.
  for (const Recorded& party : {recorded, ReadLedger(run, "nonlabel_party")}) {
    late += std::count_if(party.events.begin(), party.events.end(), [&](const EventRow& event) {
      return SecondsToDisk(event).value_or(0) > prices.shortest_window;
    });
  }
  std::cout << "  on the disk after the shortest window: " << late << "\n";
}

void PrintPricesAndPlacebos(const std::function<std::unique_ptr<TwoPartyRun>()>& make_run, Places places) {
  for (int round = 0; round < 2; ++round) {
    PrintPrices("with checkpoints", *make_run(), places, true);
    PrintPrices("without", *make_run(), places, false);
  }
}

TEST(CheckpointBench, CheckpointsOfTheDemo) { PrintPricesAndPlacebos(DemoRun, {50, 25}); }

TEST(CheckpointBench, CheckpointsOfASmallModel) {
  PrintPricesAndPlacebos([] { return SmallRun(/*rows=*/100'000, /*epochs=*/30); }, {200, 100});
}

double SecondsOfSteps(bool with_journal) {
  const std::unique_ptr<TwoPartyRun> run = SmallRun(/*rows=*/30'000, /*epochs=*/12);
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
