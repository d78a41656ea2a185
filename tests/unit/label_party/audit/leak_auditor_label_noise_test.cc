// Releases with noise on the labels: what their bound is held against, and a claim that they refute.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/ledger/ledger_reader.h"
#include "tests/unit/label_party/audit/leak_auditor_fixture.h"

namespace splitveil::testing {
namespace {

// Noise on the labels, sigma 1, gradients (p - y - xi) v: the attack that knows p and v meets Phi(1 / sqrt 2), in one
// epoch as in two, since the noised labels stay the same; and it alone is held against the bound, for the others rank
// by what the features tell, too.
TEST_F(LeakAuditorTest, HoldsABoundOnLabelsAgainstWhatTakesThePredictionOut) {
  constexpr int64_t kRows = 20'000;
  auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(kRows), ledger_.get());
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  std::vector<uint8_t> labels(kRows);
  std::vector<float> probabilities(kRows);
  Matrix directions(kRows, 2);
  Matrix gradients(kRows, 2);
  for (int64_t j = 0; j < kRows; ++j) {
    labels[j] = j % 4 == 0;
    probabilities[j] = labels[j] == 1 ? 0.8F : 0.2F;  // The features tell nearly all of it.
    const float residual = probabilities[j] - static_cast<float>(labels[j]) - normal(random);
    for (int64_t i = 0; i < 2; ++i) {
      directions.row(j)[i] = normal(random);
      gradients.row(j)[i] = residual * directions.row(j)[i];
    }
  }
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    ReleasedBatch released = Batch(epoch, labels, /*hint_row=*/0);
    released.epoch = epoch;
    auditor_->Remember(released);
    ReleaseEvidence evidence = {gradients, gradients, gradients, {}, {}, 1, 1};
    evidence.label_directions = directions;
    evidence.probabilities = probabilities;
    evidence.releases_repeat = true;
    ASSERT_TRUE(auditor_->AuditRelease(evidence).ok());
    ASSERT_TRUE(auditor_->FinishEpoch(epoch).ok());
  }
  const EpochLeaks leaks = auditor_->epoch_leaks();
  for (const char* attack : {"conditional_likelihood_ratio", "cumulative_conditional_likelihood_ratio"}) {
    const EpochLeakRow& row = leaks.at({"cut", attack});
    EXPECT_DOUBLE_EQ(row.gaussian_auc_bound, GaussianAucBound(1)) << attack;
    EXPECT_NEAR(row.auc, GaussianAucBound(1), 0.02) << attack;  // Standard error 0.004.
  }
  EXPECT_TRUE(std::isnan(leaks.at({"cut", "norm"}).gaussian_auc_bound));
  EXPECT_TRUE(std::isnan(leaks.at({"cut", "likelihood_ratio"}).gaussian_auc_bound));
  EXPECT_EQ(auditor_->bound_exceeded(), 0);
}

TEST_F(LeakAuditorTest, WhatWasReadOnceIsKeptWhenRoundingHidesItLater) {
  // A noised label y + xi leaves as the posterior q of a head that knows nothing, p = 1/2: log odds of q are y + xi -
  // 1/2. Then as that of a head that has learned it by heart, p = 1.
  constexpr int64_t kRows = 4000;
  v1::LabelSideAudit attacks;
  attacks.add_attacks(v1::CONDITIONAL_LIKELIHOOD_RATIO);
  attacks.add_attacks(v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO);
  auditor_ = std::make_unique<LeakAuditor>(agreement_, attacks, ExampleSample(kRows), ledger_.get());
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  std::vector<uint8_t> labels(kRows);
  Matrix gradients(kRows, 2), directions(kRows, 2);
  for (int64_t j = 0; j < kRows; ++j) {
    labels[j] = j % 2;
    directions.row(j)[0] = 1;
    gradients.row(j)[0] = 0.5F - 1 / (1 + std::exp(-(static_cast<float>(labels[j]) + normal(random) - 0.5F)));
  }
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    if (epoch == 1) {
      std::fill_n(gradients.row(0).data(), 2 * kRows, 0.F);
    }
    const std::vector<float> probabilities(kRows, epoch == 0 ? 0.5F : 1);
    ReleasedBatch released = Batch(epoch, labels, /*hint_row=*/0);
    released.epoch = epoch;
    auditor_->Remember(released);
    ReleaseEvidence evidence = {gradients, gradients, gradients, {}, {}, 1, 1};
    evidence.label_directions = directions;
    evidence.probabilities = probabilities;
    evidence.releases_repeat = evidence.releases_posterior = evidence.has_label_noise = true;
    ASSERT_TRUE(auditor_->AuditRelease(evidence).ok());
    ASSERT_TRUE(auditor_->FinishEpoch(epoch).ok());
  }
  const EpochLeaks leaks = auditor_->epoch_leaks();
  EXPECT_EQ(leaks.at({"cut", "conditional_likelihood_ratio"}).auc, 0.5);
  EXPECT_NEAR(leaks.at({"cut", "cumulative_conditional_likelihood_ratio"}).auc, GaussianAucBound(1), 0.025);
}

// A release that claims noise on labels and has none.
TEST_F(LeakAuditorTest, AClaimThatTheReleasesRefuteIsRecordedAtTheEnd) {
  std::vector<uint8_t> labels;
  Matrix released(100, 2), directions(100, 2);
  for (int64_t j = 0; j < 100; ++j) {
    labels.push_back(j % 2 == 0 ? 1 : 0);
    directions.row(j)[0] = 1;
    released.row(j)[0] = 0.5F - static_cast<float>(labels.back());
  }
  const std::vector<float> probabilities(100, 0.5F);
  auditor_->Remember(Batch(0, labels, -1));
  ReleaseEvidence evidence = {released, released, released};
  evidence.noise_negative = evidence.noise_positive = NoiseVariances();
  evidence.sum_kl = evidence.accumulated_sum_kl = 0.25;
  evidence.label_directions = directions;
  evidence.probabilities = probabilities;
  evidence.releases_repeat = evidence.has_label_noise = true;
  ASSERT_TRUE(auditor_->AuditRelease(evidence).ok());
  EXPECT_FALSE(auditor_->claim_check().has_value());
  ASSERT_TRUE(auditor_->FinishRun().ok());
  ASSERT_TRUE(auditor_->claim_check().has_value());
  EXPECT_TRUE(auditor_->claim_check()->is_refuted());
  ASSERT_TRUE(ledger_->Finish("completed").ok());
  const auto reader = LedgerReader::Open(files_.File("ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::optional<ClaimCheckRow> row = *(*reader)->ClaimCheck("audit-1");
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->claimed_mu, 0.5);
  const std::vector<EventRow> events = *(*reader)->Events("audit-1");
  EXPECT_TRUE(
      std::any_of(events.begin(), events.end(), [](const EventRow& event) { return event.kind == "claim_refuted"; }));
}

}  // namespace
}  // namespace splitveil::testing
