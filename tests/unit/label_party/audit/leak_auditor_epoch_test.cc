// Figures over the examples of an epoch, beside what the noise allows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/ledger/ledger_reader.h"
#include "tests/unit/label_party/audit/leak_auditor_fixture.h"

namespace splitveil::testing {
namespace {

TEST_F(LeakAuditorTest, RecordsAnEpochsFiguresBesideWhatTheNoiseAllows) {
  constexpr double kSumKl = 1;  // Distance 1, variance 1.
  constexpr int64_t kRows = 20'000;
  auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(kRows), ledger_.get());
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    const Gaussians batch(kRows, 1, epoch);
    ReleasedBatch released = Batch(epoch, batch.labels, /*hint_row=*/0);
    released.epoch = epoch;
    auditor_->Remember(released);
    ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, {1, 1}, kSumKl, kSumKl * (epoch + 1.0))).ok());
    ASSERT_TRUE(auditor_->FinishEpoch(epoch).ok());
  }
  const EpochLeaks leaks = auditor_->epoch_leaks();
  const EpochLeakRow& once = leaks.at({"cut", "likelihood_ratio"});
  EXPECT_EQ(once.epoch, 1);
  EXPECT_EQ(once.examples, kRows - 1);
  EXPECT_DOUBLE_EQ(once.gaussian_auc_bound, GaussianAucBound(kSumKl));
  EXPECT_NEAR(once.auc, GaussianAucBound(kSumKl), 0.02);  // Standard error 0.004.
  EXPECT_LT(once.auc_low, once.auc);
  const EpochLeakRow& remembered = leaks.at({"cut", "cumulative_likelihood_ratio"});
  EXPECT_DOUBLE_EQ(remembered.gaussian_auc_bound, GaussianAucBound(2 * kSumKl));
  EXPECT_NEAR(remembered.auc, GaussianAucBound(2 * kSumKl), 0.02);
  EXPECT_DOUBLE_EQ(remembered.auc_bound, AucBound(2 * kSumKl));
  EXPECT_TRUE(std::isnan(leaks.at({"cut", "activation_clusters"}).gaussian_auc_bound));
  EXPECT_EQ(auditor_->bound_exceeded(), 0);
}

TEST_F(LeakAuditorTest, SampledAuditReadsEveryNthReleaseAndCountsTheNoiseOfAll) {
  v1::LabelSideAudit sampled;
  sampled.set_every_batches(2);
  sampled.add_attacks(v1::NORM);
  auditor_ = std::make_unique<LeakAuditor>(agreement_, sampled, ExampleSample(100), ledger_.get());
  const float values[] = {1, 0, 2, 0, -1, 0, -1, 0.5f};
  const ConstMatrixView rows(values, 4, 2);
  const double sum_kls[] = {1, 4, 1, 9};
  double accumulated = 0, allowed = 0;
  for (uint32_t batch = 0; batch < 4; ++batch) {
    EXPECT_EQ(auditor_->Reads(batch), batch % 2 == 0);
    auditor_->Remember(Batch(batch, {1, 1, 0, 0}, /*hint_row=*/-1));
    accumulated += sum_kls[batch];
    allowed += GaussianAucBound(sum_kls[batch]) / 4;
    const ConstMatrixView released = auditor_->Reads(batch) ? rows : ConstMatrixView();
    if (auditor_->Reads(batch)) {
      EXPECT_FALSE(auditor_->AuditRelease({ConstMatrixView(), rows, rows}).ok());
    }
    ASSERT_TRUE(auditor_->AuditRelease({released, rows, rows, {}, {}, sum_kls[batch], accumulated}).ok());
  }
  ASSERT_TRUE(auditor_->FinishEpoch(0).ok());
  EXPECT_EQ(auditor_->series().at({"cut", "norm"}).size(), 2u);
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).examples, 8);
  EXPECT_NEAR(auditor_->epoch_leaks().at({"cut", "norm"}).gaussian_auc_bound, allowed, 1e-12);

  ASSERT_TRUE(ledger_->Commit().ok());
  const auto reader = LedgerReader::Open(files_.File("ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto bins = (*reader)->Distributions("audit-1");
  ASSERT_TRUE(bins.ok()) << bins.status();
  std::map<std::string, int64_t> counted;
  for (const DistributionRow& bin : *bins) {
    counted[bin.quantity] += bin.examples;
  }
  EXPECT_EQ(counted, (std::map<std::string, int64_t>{{"clean_norm", 8}, {"norm", 8}}));

  for (v1::Attack attack : {v1::CUMULATIVE_SPECTRAL, v1::LIKELIHOOD_RATIO}) {
    v1::LabelSideAudit goes_by_all = sampled;
    goes_by_all.add_attacks(attack);
    EXPECT_TRUE(LeakAuditor(agreement_, goes_by_all, ExampleSample(100), ledger_.get()).Reads(1)) << attack;
  }
}

TEST_F(LeakAuditorTest, SaysWhenMoreIsReadThanTheNoiseAllows) {
  constexpr double kClaimedSumKl = 0.5;  // In truth 4: as if the noise had half the configured deviation, or less.
  const Gaussians batch(2000, 2, 1);
  auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(2000), ledger_.get());
  auditor_->Remember(Batch(0, batch.labels, 0));
  ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, {16, 16}, kClaimedSumKl, kClaimedSumKl)).ok());
  ASSERT_TRUE(auditor_->FinishEpoch(0).ok());
  EXPECT_GE(auditor_->bound_exceeded(), 4);  // Both likelihood ratios and the directions among them.
  ASSERT_TRUE(ledger_->Commit().ok());
  const absl::StatusOr<std::unique_ptr<LedgerReader>> reader = LedgerReader::Open(files_.File("ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<EventRow> events = *(*reader)->Events("audit-1");
  ASSERT_EQ(events.size(), auditor_->bound_exceeded());
  EXPECT_EQ(events[0].kind, "bound_exceeded");
  // Named at the end of the run, too, when the last epoch's figures no longer tell.
  EXPECT_EQ(auditor_->attacks_beyond().size(), events.size());
  for (const auto& [layer, attack] : auditor_->attacks_beyond()) {
    EXPECT_EQ(layer, "cut");
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [name = attack](const EventRow& event) {
      return event.detail.find(name + " at cut") != std::string::npos;
    })) << attack;
  }
}

TEST_F(LeakAuditorTest, PoolsThePeersScoresByEpoch) {
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    ReleasedBatch batch = Batch(epoch, {1, 1, 0, 0}, -1);
    batch.epoch = epoch;
    auditor_->Remember(batch);
    v1::ScoreBatchRequest request =
        Scores(epoch, epoch == 0 ? std::vector<float>{4, 3, 2, 1} : std::vector<float>{1, 2, 3, 4});
    request.set_epoch(epoch);
    ASSERT_TRUE(auditor_->Judge(request).ok());
    EXPECT_EQ(auditor_->epoch_leaks().size(), epoch);  // An epoch is complete when the next one begins.
  }
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).auc, 1);
  ASSERT_TRUE(auditor_->FinishRun().ok());
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).auc, 0);
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).epoch, 1);
}

TEST_F(LeakAuditorTest, KeepsHistogramsOfBothClasses) {
  const Gaussians batch(400, 3, 2);
  auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(400), ledger_.get());
  auditor_->Remember(Batch(0, batch.labels, 0));
  ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, {1, 1}, 9, 9)).ok());
  ASSERT_TRUE(auditor_->FinishEpoch(0).ok());
  ASSERT_TRUE(ledger_->Commit().ok());
  const absl::StatusOr<std::unique_ptr<LedgerReader>> reader = LedgerReader::Open(files_.File("ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::vector<DistributionRow> rows = *(*reader)->Distributions("audit-1");
  std::map<std::pair<std::string, int64_t>, int64_t> examples;
  for (const DistributionRow& row : rows) {
    examples[{row.quantity, row.label}] += row.examples;
    EXPECT_LT(row.low, row.high);
  }
  ASSERT_EQ(examples.size(), 8);           // Norm and cosine, clean and released, of two classes.
  EXPECT_EQ((examples[{"norm", 1}]), 99);  // Without the hint row.
  EXPECT_EQ((examples[{"clean_cosine", 0}]), 300);
}

// Sixteen positives per batch: moments taken from the scored rows themselves would know each of them, and reach an AUC
// of 0.64 and more where 0.56 is there.
TEST_F(LeakAuditorTest, ScoresNoRowByWhatThatRowTells) {
  constexpr double kSumKl = 0.05;
  constexpr int64_t kRows = 64, kBatches = 1500;
  for (const NoiseVariances stated : {NoiseVariances{1, 1}, NoiseVariances{}}) {
    v1::LabelSideAudit attacks;
    attacks.add_attacks(v1::LIKELIHOOD_RATIO);
    attacks.add_attacks(v1::MEASURED_LIKELIHOOD_RATIO);
    auditor_ = std::make_unique<LeakAuditor>(agreement_, attacks, ExampleSample(kRows * kBatches), ledger_.get());
    const int64_t first = std::isnan(stated.along) ? kBatches : 0;
    for (int64_t b = first; b < first + kBatches; ++b) {
      const Gaussians batch(kRows, std::sqrt(kSumKl), static_cast<uint64_t>(b));
      auditor_->Remember(Batch(static_cast<uint32_t>(b), batch.labels, -1));
      ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, stated, kSumKl, kSumKl)).ok());
    }
    ASSERT_TRUE(auditor_->FinishEpoch(first > 0).ok());
    EXPECT_EQ(auditor_->bound_exceeded(), 0);
    for (const char* attack : {"likelihood_ratio", "measured_likelihood_ratio"}) {
      // Standard error 0.0021; scores standardised by batch lose a little.
      EXPECT_NEAR(auditor_->epoch_leaks().at({"cut", attack}).auc, GaussianAucBound(kSumKl), 0.012) << attack;
    }
  }
}

TEST_F(LeakAuditorTest, KeepsTheBoundsOfThePeersLastEpochThroughAFreeze) {
  const Gaussians batch(64, 1, 3);
  auditor_->Remember(Batch(0, batch.labels, 0));
  ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, {1, 1}, 1, 1)).ok());
  ASSERT_TRUE(auditor_->Judge(Scores(0, std::vector<float>(64, 1))).ok());
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    ASSERT_TRUE(auditor_->FinishEpoch(epoch).ok());  // Nothing leaves after the first.
  }
  ASSERT_TRUE(auditor_->FinishRun().ok());
  EXPECT_DOUBLE_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).gaussian_auc_bound, GaussianAucBound(1));
}

TEST_F(LeakAuditorTest, RecordsTheEpochInWhichARunEnds) {
  const Gaussians batch(64, 1, 3);
  auditor_->Remember(Batch(0, batch.labels, 0));
  ASSERT_TRUE(auditor_->AuditRelease(Evidence(batch, {1, 1}, 1, 1)).ok());
  EXPECT_TRUE(auditor_->epoch_leaks().empty());
  ASSERT_TRUE(auditor_->FinishRun().ok());
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "spectral"}).examples, 63);
}

}  // namespace
}  // namespace splitveil::testing
