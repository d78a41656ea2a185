#include "common/ledger/ledger_reader.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "tests/unit/common/ledger/ledger_file.h"

namespace splitveil {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LedgerReaderTest : public LedgerFileTest {
 protected:
  std::unique_ptr<LedgerReader> Reader() const {
    auto reader = LedgerReader::Open(path_);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return reader.ok() ? *std::move(reader) : nullptr;
  }
};

TEST_F(LedgerReaderTest, ReadsBackEveryTable) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(ledger->Record(StepRow{7, 1, 3, 128, nan, 0.25, 1000, 2000}).ok());
  ASSERT_TRUE(ledger->Record(StepTimeRow{7, 1, 2, 3, 4, 5, 6, 7, 8, 9.5}).ok());
  ASSERT_TRUE(ledger->Record(ProtectionRow{7, "marvell", 1, 2, 3, 0.25, 4, 5, 6, 7, 8, 0.5, 0.75, v1::WARN}).ok());
  ASSERT_TRUE(ledger->Record(EvaluationRow{7, "test", 0.5, 0.75, 0.875, 0.0625}).ok());
  EvaluationRow regression{9, "test", nan, nan, nan, nan, 0.125, 0.5};
  ASSERT_TRUE(ledger->Record(regression).ok());
  ASSERT_TRUE(
      ledger->Record(ClaimCheckRow{1.5, nan, 1.25, 2.5, 0.0625, 0.95, "own", 2000, 500, 0.75, 0.125, 1, 0.9999, 2})
          .ok());
  ASSERT_TRUE(ledger->Record(AllRunsRow{"ab12", 2000, 0.75}).ok());
  ASSERT_TRUE(ledger->RecordEvent("disclosure", "oracle").ok());
  ASSERT_TRUE(ledger->Finish("completed").ok());
  std::unique_ptr<LedgerReader> reader = Reader();

  const std::optional<ClaimCheckRow> audit = *reader->ClaimCheck("run-1");
  ASSERT_TRUE(audit.has_value());
  EXPECT_EQ(audit->claimed_mu, 1.5);
  EXPECT_TRUE(std::isnan(audit->claimed_epsilon));
  EXPECT_EQ(audit->mu_lower, 1.25);
  EXPECT_EQ(audit->test, "own");
  EXPECT_EQ(audit->examples, 2000);
  EXPECT_EQ(audit->false_positive_rate_high, 0.125);
  EXPECT_EQ(audit->failing_mu_lower, 1);
  EXPECT_EQ(audit->failing_confidence, 0.9999);
  EXPECT_EQ(audit->half_noise_mu_lower, 2);
  EXPECT_FALSE(audit->is_refuted());
  EXPECT_TRUE(audit->is_conclusive());
  EXPECT_FALSE(reader->ClaimCheck("run-2")->has_value());
  EXPECT_EQ((*reader->AllRuns("run-1"))->examples, 2000);
  EXPECT_EQ((*reader->AllRuns("run-1"))->account, "ab12");
  EXPECT_EQ((*reader->AllRuns("run-1"))->auc_bound, 0.75);
  EXPECT_FALSE(reader->AllRuns("run-2")->has_value());

  const std::vector<RunRecord> runs = *reader->Runs();
  ASSERT_EQ(runs.size(), 1);
  EXPECT_EQ(runs[0].run.protection, "marvell(s=4)");
  EXPECT_EQ(runs[0].run.agreement_sha256, "ab12");
  EXPECT_EQ(runs[0].run.config_json, R"({"batch_size":128})");
  EXPECT_EQ(runs[0].status, "completed");
  EXPECT_LE(runs[0].started_at, runs[0].finished_at);

  const std::vector<StepTimeRow> times = *reader->StepTimes("run-1");
  ASSERT_EQ(times.size(), 1);
  EXPECT_EQ(times[0].step, 7);
  EXPECT_EQ(times[0].data, 1);
  EXPECT_EQ(times[0].wait, 5);
  EXPECT_EQ(times[0].attacks, 9.5);
  const std::vector<StepRow> steps = *reader->Steps("run-1");
  ASSERT_EQ(steps.size(), 1);
  EXPECT_TRUE(std::isnan(steps[0].loss));
  EXPECT_EQ(steps[0].batch, 3);
  EXPECT_EQ(steps[0].bytes_received, 2000);

  const std::vector<ProtectionRow> protections = *reader->Protections("run-1");
  ASSERT_EQ(protections.size(), 1);
  EXPECT_EQ(protections[0].v, 2);
  EXPECT_EQ(protections[0].lambda2_pos, 8);
  EXPECT_EQ(protections[0].gate, v1::WARN);

  const std::vector<EvaluationRow> evaluations = *reader->Evaluations("run-1");
  ASSERT_EQ(evaluations.size(), 2);
  EXPECT_EQ(evaluations[0].calibration_error, 0.0625);
  EXPECT_TRUE(std::isnan(evaluations[0].rmse));
  EXPECT_TRUE(std::isnan(evaluations[0].r_squared));
  EXPECT_TRUE(std::isnan(evaluations[1].log_loss));
  EXPECT_EQ(evaluations[1].rmse, 0.125);
  EXPECT_EQ(evaluations[1].r_squared, 0.5);

  const std::vector<EventRow> events = *reader->Events("run-1");
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].kind, "disclosure");
}

TEST_F(LedgerReaderTest, ReadsWhatProtectsAttributesAsRecorded) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  const double none = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(ledger->Record(PrivacyLossRow{7, "sex", 0.02, 0.05, -0.5, 1, 3, true}).ok());
  ASSERT_TRUE(ledger->Record(PrivacyLossRow{6, "sex", 0.01, none, 0.25, 0.75, 0, false}).ok());
  ASSERT_TRUE(ledger->Record(ActivationBoundRow{5, 1.5, 0.86}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  const std::vector<PrivacyLossRow> losses = *Reader()->PrivacyLosses("run-1");
  ASSERT_EQ(losses.size(), 2);
  EXPECT_TRUE(std::isnan(losses[0].threshold));
  EXPECT_EQ(losses[1].step, 7);
  EXPECT_EQ(losses[1].attribute, "sex");
  EXPECT_EQ(losses[1].privacy_loss, 0.02);
  EXPECT_EQ(losses[1].threshold, 0.05);
  EXPECT_EQ(losses[1].weight, -0.5);
  EXPECT_EQ(losses[1].utility_weight, 1);
  EXPECT_EQ(losses[1].correction_steps, 3);
  EXPECT_TRUE(losses[1].at_front);
  const std::optional<ActivationBoundRow> bound = *Reader()->ActivationBound("run-1");
  ASSERT_TRUE(bound.has_value());
  EXPECT_EQ(bound->releases, 5);
  EXPECT_EQ(bound->mu, 1.5);
  EXPECT_EQ(bound->auc_bound, 0.86);
  EXPECT_FALSE(Reader()->ActivationBound("run-2")->has_value());
}

TEST_F(LedgerReaderTest, ReadsEpochFiguresAndDistributionsAsRecorded) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(ledger->Record(EpochLeakRow{epoch, "label_party", "first", "norm", 1000, 250, 0.5}).ok());
    ASSERT_TRUE(ledger
                    ->Record(EpochLeakRow{epoch, "label_party", "cut", "spectral", 1000, 250, 0.64, 0.62, 0.66, 0.1,
                                          0.09, 0.11, 0.02, 0.01, 0.03, 0.63, 0.7})
                    .ok());
  }
  ASSERT_TRUE(ledger->Record(DistributionRow{1, "cosine", 1, 3, -0.5, -0.25, 42}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  const std::vector<EpochLeakRow> leaks = *Reader()->EpochLeaks("run-1");
  ASSERT_EQ(leaks.size(), 4);
  EXPECT_EQ(leaks[1].layer, "cut");
  EXPECT_EQ(leaks[1].epoch, 1);
  EXPECT_EQ(leaks[1].positives, 250);
  EXPECT_EQ(leaks[1].auc_high, 0.66);
  EXPECT_EQ(leaks[1].tpr_1pct_low, 0.09);
  EXPECT_EQ(leaks[1].tpr_01pct, 0.02);
  EXPECT_EQ(leaks[1].gaussian_auc_bound, 0.63);
  EXPECT_EQ(leaks[1].auc_bound, 0.7);
  EXPECT_EQ(leaks[2].layer, "first");
  const std::vector<DistributionRow> distributions = *Reader()->Distributions("run-1");
  ASSERT_EQ(distributions.size(), 1);
  EXPECT_EQ(distributions[0].quantity, "cosine");
  EXPECT_EQ(distributions[0].label, 1);
  EXPECT_EQ(distributions[0].high, -0.25);
  EXPECT_EQ(distributions[0].examples, 42);
  EXPECT_TRUE(Reader()->EpochLeaks("run-2")->empty());
}

TEST_F(LedgerReaderTest, SummarisesEveryAttackWithTheCutLayerFirst) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  for (int64_t step = 0; step < 4; ++step) {
    const double auc = 0.2 + 0.2 * static_cast<double>(step);
    ASSERT_TRUE(ledger->Record(LeakRow{step, "nonlabel_party", "cut", "norm", auc, 128}).ok());
    ASSERT_TRUE(ledger->Record(LeakRow{step, "nonlabel_party", "b", "norm", 0.5, 128}).ok());
  }
  ASSERT_TRUE(ledger->Record(LeakRow{0, "label_party", "cut", "norm", 0.75, 128}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  const std::vector<LeakSeries> leaks = *Reader()->Leaks("run-1");
  ASSERT_EQ(leaks.size(), 3);
  EXPECT_EQ(leaks[0].observer, "label_party");
  EXPECT_EQ(leaks[0].summary.mean_ci95, 0);
  EXPECT_EQ(leaks[1].layer, "cut");
  EXPECT_THAT(leaks[1].steps, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(leaks[1].aucs, ElementsAre(0.2, 0.4, DoubleNear(0.6, 1e-12), DoubleNear(0.8, 1e-12)));  // As measured.
  // Of 0.8, 0.6, 0.6, 0.8: mean 0.7, sample deviation sqrt(0.04/3), half width 1.96 of it over sqrt(4).
  EXPECT_NEAR(leaks[1].summary.mean, 0.7, 1e-12);
  EXPECT_NEAR(leaks[1].summary.mean_ci95, 1.959964 * std::sqrt(0.04 / 3) / 2, 1e-6);
  EXPECT_NEAR(leaks[1].summary.p95, 0.8, 1e-12);
  EXPECT_EQ(leaks[2].layer, "b");
}

TEST_F(LedgerReaderTest, LeavesOutStepsWithoutAnAuc) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(ledger->Record(LeakRow{0, "label_party", "cut", "norm", 0.75, 128}).ok());
  ASSERT_TRUE(ledger->Record(LeakRow{1, "label_party", "cut", "norm", nan, 128}).ok());
  ASSERT_TRUE(ledger->Record(LeakRow{0, "label_party", "cut", "cosine", nan, 128}).ok());
  ASSERT_TRUE(ledger->Commit().ok());
  const std::vector<LeakSeries> leaks = *Reader()->Leaks("run-1");
  ASSERT_EQ(leaks.size(), 2);
  EXPECT_EQ(leaks[0].summary.steps, 0);
  EXPECT_THAT(leaks[1].aucs, ElementsAre(0.75));
}

TEST_F(LedgerReaderTest, SeesCommittedRowsWhileTheRunWrites) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  std::unique_ptr<LedgerReader> reader = Reader();
  ASSERT_TRUE(ledger->Record(StepRow{}).ok());
  EXPECT_THAT(*reader->Steps("run-1"), IsEmpty());
  ASSERT_TRUE(ledger->Commit().ok());
  EXPECT_EQ(reader->Steps("run-1")->size(), 1);
  EXPECT_EQ(reader->Runs()->front().status, "running");
  EXPECT_EQ(reader->Runs()->front().finished_at, "");
}

TEST_F(LedgerReaderTest, ManyReadersMayReadWhileTheRunWrites) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  std::unique_ptr<LedgerReader> first = Reader(), second = Reader();
  for (int64_t step = 0; step < 20; ++step) {
    ASSERT_TRUE(ledger->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
    ASSERT_TRUE(ledger->Commit().ok());
    EXPECT_EQ(first->Steps("run-1")->size(), step + 1);
    EXPECT_EQ(second->Steps("run-1")->size(), step + 1);
  }
}

TEST_F(LedgerReaderTest, FindsNothingForAnUnknownRun) {
  Open("run-1");
  std::unique_ptr<LedgerReader> reader = Reader();
  EXPECT_THAT(*reader->Steps("run-2"), IsEmpty());
  EXPECT_THAT(*reader->Leaks("run-2"), IsEmpty());
  EXPECT_THAT(*reader->Events("' OR 1 = 1 --"), IsEmpty());
}

TEST_F(LedgerReaderTest, RefusesAMissingFileAndCreatesNone) {
  EXPECT_EQ(LedgerReader::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LedgerReaderTest, RefusesAFolder) {
  EXPECT_EQ(LedgerReader::Open(folder_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerReaderTest, RefusesAnEmptyFile) {
  WriteFile("");
  const absl::Status status = LedgerReader::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(LedgerReaderTest, RefusesAFileThatIsNoDatabase) {
  WriteFile("label\tI1\tI2\n");
  EXPECT_EQ(LedgerReader::Open(path_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerReaderTest, RefusesAnotherDatabase) {
  Sql("CREATE TABLE run(name TEXT)");
  EXPECT_EQ(LedgerReader::Open(path_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LedgerReaderTest, RefusesAnotherVersion) {
  Open("run-1");
  Sql("PRAGMA user_version = 99");
  const absl::Status status = LedgerReader::Open(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected 9, found 99, written by a later version of Splitveil; to report on its runs, use the "
                        "`splitveil` of that version; to record new runs, set a different ledger_path"));
}

TEST_F(LedgerReaderTest, ReportsADamagedFile) {
  Open("run-0").reset();
  const size_t created = ReadFile().size();  // The schema stays readable, every later page does not.
  std::unique_ptr<Ledger> ledger = Open("run-1");
  for (int64_t step = 0; step < 2000; ++step) {
    ASSERT_TRUE(ledger->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
  }
  ledger.reset();
  std::string bytes = ReadFile();
  ASSERT_GT(bytes.size(), created);
  bytes.replace(created, bytes.size() - created, bytes.size() - created, '\x5a');
  WriteFile(bytes);
  std::unique_ptr<LedgerReader> reader = Reader();
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->Steps("run-1").status().code(), absl::StatusCode::kDataLoss);
}

// Whatever is wrong with the file, the operator hears that it is the file: exit code 2, not that of a bug.
TEST_F(LedgerReaderTest, DamageAnywhereIsTheFilesFault) {
  std::unique_ptr<Ledger> ledger = Open("run-1");
  for (int64_t step = 0; step < 300; ++step) {
    ASSERT_TRUE(ledger->Record(StepRow{step, 0, step, 1, 0.5, 0, 0, 0}).ok());
    ASSERT_TRUE(ledger->RecordEvent("disclosure", "none").ok());
  }
  ASSERT_TRUE(ledger->Finish("completed").ok());
  ledger.reset();
  const std::string whole = ReadFile();
  std::mt19937 draw(5);
  for (int i = 0; i < 400; ++i) {
    std::string damaged = whole;
    if (i % 4 == 0) {
      damaged.resize(draw() % whole.size());
    } else {
      const size_t at = draw() % whole.size();
      const size_t size = std::min<size_t>(1 + draw() % (i % 2 == 0 ? 8 : 2000), whole.size() - at);
      for (size_t byte = at; byte < at + size; ++byte) {
        damaged[byte] = static_cast<char>(draw());
      }
    }
    WriteFile(damaged);
    const auto reader = LedgerReader::Open(path_);
    absl::Status status = reader.status();
    if (reader.ok()) {
      status.Update((*reader)->Runs().status());
      status.Update((*reader)->Steps("run-1").status());
      status.Update((*reader)->Events("run-1").status());
      status.Update((*reader)->Leaks("run-1").status());
      status.Update((*reader)->AllRuns("run-1").status());
    }
    const bool of_the_file = status.ok() || absl::IsInvalidArgument(status) || absl::IsDataLoss(status);
    EXPECT_TRUE(of_the_file) << i << ": " << status;
  }
}

TEST_F(LedgerReaderTest, LeavesTheFileAsItWasAndNothingBesideIt) {
  Open("run-1").reset();
  const std::string before = ReadFile();
  {
    const std::unique_ptr<LedgerReader> reader = Reader();
    EXPECT_EQ(reader->Runs()->size(), 1);
  }
  EXPECT_EQ(ReadFile(), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
}

TEST_F(LedgerReaderTest, LeavesWhatARunThatWritesNeedsAndSeesWhatItCommitted) {
  const std::unique_ptr<Ledger> ledger = Open("run-1");
  {
    const std::unique_ptr<LedgerReader> reader = Reader();
    EXPECT_EQ(reader->Runs()->size(), 1);
  }
  EXPECT_TRUE(std::filesystem::exists(path_ + "-wal"));
  ASSERT_TRUE(ledger->Record(StepRow{0, 0, 0, 128, 0.5, 0.25, 1000, 2000}).ok());
  ASSERT_TRUE(ledger->Finish("completed").ok());
  EXPECT_EQ(Reader()->Steps("run-1")->size(), 1);
}

// A reader that moved into the file what a killed run left beside it would change the file that an audit has hashed.
TEST_F(LedgerReaderTest, LeavesWhatAKilledRunLeftBesideTheFile) {
  const std::string killed = folder_ + "/killed.db";
  {
    const std::unique_ptr<Ledger> ledger = Open("run-1");
    for (const char* suffix : {"", "-wal"}) {  // As they stand while the run writes.
      std::filesystem::copy_file(path_ + suffix, killed + suffix);
    }
  }
  ASSERT_GT(std::filesystem::file_size(killed + "-wal"), 0);
  path_ = killed;
  const std::string before = ReadFile();
  {
    const std::unique_ptr<LedgerReader> reader = Reader();
    EXPECT_EQ(reader->Runs()->size(), 1);
  }
  EXPECT_EQ(ReadFile(), before);
  EXPECT_GT(std::filesystem::file_size(killed + "-wal"), 0);
}

}  // namespace
}  // namespace splitveil
