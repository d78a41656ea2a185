// A run of very many tiny steps, both parties in this process: what it holds does not grow. SPLITVEIL_LONG_RUN_STEPS
// says how many; by default few, to see that it works. From 100,000 on memory and open files are held to 1%.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kEnoughToJudge = 100'000;

int64_t WantedSteps() {
  const char* const steps = std::getenv("SPLITVEIL_LONG_RUN_STEPS");
  return steps == nullptr ? 3000 : std::atoll(steps);
}

struct Sample {
  int64_t steps = 0;
  int64_t resident_kib = 0, files = 0, ledger_bytes = 0;
};

int64_t ResidentKib() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int64_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

// The largest of one figure from one share of the run's steps to another.
int64_t Largest(const std::vector<Sample>& samples, int64_t Sample::*figure, double from, double to) {
  const auto all = static_cast<double>(samples.back().steps);
  int64_t largest = 0;
  for (const Sample& sample : samples) {
    const double share = static_cast<double>(sample.steps) / all;
    largest = share >= from && share <= to ? std::max(largest, sample.*figure) : largest;
  }
  return largest;
}

TEST(LongRunTest, HoldsNoMoreAtItsEndThanOnceItIsWarm) {
  // The figures of each epoch are kept, some 5 KiB: of many steps a run has epochs to match.
  const int64_t steps_of_an_epoch = WantedSteps() < kEnoughToJudge ? 250 : 2500;
  const auto epochs = static_cast<uint32_t>(std::max<int64_t>(WantedSteps() / steps_of_an_epoch, 1));
  SmallRun run(static_cast<int>(steps_of_an_epoch * kBatch));
  run.agreement.set_batch_size(static_cast<uint32_t>(kBatch));
  run.agreement.set_minimum_batch_size(2);
  run.agreement.set_epochs(epochs);
  run.agreement.set_test_fraction(0);
  v1::AuditAgreement& audit = *run.agreement.mutable_audit();
  audit.clear_layers();
  audit.clear_attacks();
  audit.set_disclosure(v1::LABEL_SIDE_ONLY);
  for (v1::PartyCommon* party : {run.label_config.mutable_party(), run.nonlabel_config.mutable_party()}) {
    party->set_ledger_retained_steps(1000);
  }
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  run.label_config.mutable_label_side_audit()->add_attacks(v1::NORM);
  std::unique_ptr<LabelSession> label = *LabelSession::Create(run.LabelOptions());
  LocalLabelParty peer(label.get());
  NonLabelSession nonlabel(run.NonLabelOptions(&peer));
  std::vector<Sample> samples;
  std::atomic<bool> finished{false};
  std::thread sampler([&] {
    for (bool last = false; !last;) {
      last = finished;
      const auto steps = static_cast<int64_t>(run.label_status.Snapshot().step());
      std::error_code none;
      const auto ledger = static_cast<int64_t>(std::filesystem::file_size(run.files.File("label_party.db"), none));
      samples.push_back({steps, ResidentKib(), OpenFiles(), none ? 0 : ledger});
      absl::SleepFor(absl::Milliseconds(last ? 0 : 100));
    }
  });
  const absl::Status trained = nonlabel.Run();
  finished = true;
  sampler.join();
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_TRUE(label->WaitUntilEnded([] { return true; }).ok());
  ASSERT_FALSE(samples.empty());
  for (const auto& [name, figure] : {std::pair{"resident KiB", &Sample::resident_kib},
                                     {"open files", &Sample::files},
                                     {"ledger bytes", &Sample::ledger_bytes}}) {
    const int64_t warm = Largest(samples, figure, 0.1, 0.3), last = Largest(samples, figure, 0.8, 1);
    std::cout << name << ": " << warm << " in the second to third tenth of " << samples.back().steps << " steps, "
              << last << " in the last two\n";
    if (samples.back().steps >= kEnoughToJudge && figure != &Sample::ledger_bytes) {
      EXPECT_LE(static_cast<double>(last), 1.01 * static_cast<double>(warm)) << name;
    }
  }
}

}  // namespace
}  // namespace splitveil::testing
