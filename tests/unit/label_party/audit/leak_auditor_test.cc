// One batch: which scores are judged, how, and what of it is kept.
#include "label_party/audit/leak_auditor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/unit/label_party/audit/leak_auditor_fixture.h"

namespace splitveil::testing {
namespace {

const Matrix kTwoRows(2, 2), kThreeRows(3, 2);

// What is remembered until its scores come: someone who adds a field must name it here, and may not add a number of a
// gradient. The gradients themselves are lent for the call that attacks them.
TEST(ReleasedBatchTest, HoldsNoGradient) {
  const auto& [step, epoch, batch, labels, candidates, is_higher, positions, is_answered, is_lowered, hint_rows] =
      ReleasedBatch();
  static_assert(std::is_integral_v<std::decay_t<decltype(step)>> && std::is_integral_v<std::decay_t<decltype(epoch)>> &&
                std::is_integral_v<std::decay_t<decltype(batch)>>);
  static_assert(std::is_same_v<std::decay_t<decltype(candidates[0])>, LabelCandidates> &&
                std::is_integral_v<std::decay_t<decltype(is_higher[0])>>);
  static_assert(std::is_integral_v<std::decay_t<decltype(labels[0])>> &&
                std::is_integral_v<std::decay_t<decltype(positions[0])>> &&
                std::is_same_v<std::decay_t<decltype(is_answered)>, bool> &&
                std::is_same_v<std::decay_t<decltype(is_lowered)>, bool> &&
                std::is_integral_v<std::decay_t<decltype(hint_rows[0])>>);
  EXPECT_TRUE(hint_rows.empty());
}

TEST_F(LeakAuditorTest, LeavesTheHintRowOutOfTheAuc) {
  // With row 0 the AUC would be 3/4; without it both remaining pairs are wrong.
  auditor_->Remember(Batch(0, {1, 1, 0, 0}, 0));
  const auto response = auditor_->Judge(Scores(0, {9, 1, 2, 3}));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->leaks_size(), 1);
  EXPECT_EQ(response->leaks(0).auc(), 0);
}

TEST_F(LeakAuditorTest, LabelSideAuditReadsTheReleasedBytes) {
  auditor_->Remember(Batch(0, {1, 1, 0, 0}, 0));
  Matrix released(4, 2);
  const float values[] = {1, 0, 2, 0, -1, 0, -1, 0.5f};
  std::copy(std::begin(values), std::end(values), released.data());
  ASSERT_TRUE(auditor_->AuditRelease({released, released, released}).ok());
  const BatchLeaks series = auditor_->series();
  EXPECT_EQ(series.at({"cut", "norm"}), StepSeries{1});
  EXPECT_EQ(series.at({"cut", "cosine"}), StepSeries{1});
  EXPECT_EQ(auditor_->latest(), "norm 1.00 cosine 1.00 residual_norm 0.50 cumulative_spectral 1.00 at cut");
}

TEST_F(LeakAuditorTest, TheStrongerOfBothObserversCountsInTheSeries) {
  auditor_->Remember(Batch(0, {1, 0}, -1));
  ASSERT_TRUE(auditor_->AuditRelease({kTwoRows, kTwoRows, kTwoRows}).ok());
  ASSERT_EQ(auditor_->series().at({"cut", "norm"}), StepSeries{0.5});
  ASSERT_TRUE(auditor_->Judge(Scores(0, {2, 1})).ok());
  EXPECT_EQ(auditor_->series().at({"cut", "norm"}), StepSeries{1});
}

TEST_F(LeakAuditorTest, ScoresThatTellNothingDoNotHideWhatWasMeasuredHere) {
  auditor_->Remember(Batch(0, {1, 1, 0, 0}, 0));
  Matrix released(4, 2);
  const float values[] = {1, 0, 2, 0, -1, 0, -1, 0.5f};
  std::copy(std::begin(values), std::end(values), released.data());
  ASSERT_TRUE(auditor_->AuditRelease({released, released, released}).ok());
  ASSERT_TRUE(auditor_->Judge(Scores(0, {5, 5, 5, 5})).ok());
  EXPECT_EQ(auditor_->series().at({"cut", "norm"}), StepSeries{1});
  ASSERT_TRUE(auditor_->FinishEpoch(0).ok());
  ASSERT_TRUE(auditor_->FinishRun().ok());
  EXPECT_EQ(auditor_->epoch_leaks().at({"cut", "norm"}).auc, 1);
}

TEST_F(LeakAuditorTest, BatchWithOneClassHasNoAuc) {
  auditor_->Remember(Batch(0, {0, 0, 0}, -1));
  ASSERT_TRUE(auditor_->AuditRelease({kThreeRows, kThreeRows, kThreeRows}).ok());
  const auto response = auditor_->Judge(Scores(0, {1, 2, 3}));
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->leaks_size(), 0);
  EXPECT_TRUE(auditor_->series().empty());
}

TEST_F(LeakAuditorTest, JudgesABatchOnce) {
  auditor_->Remember(Batch(0, {1, 0}, -1));
  ASSERT_TRUE(auditor_->Judge(Scores(0, {1, 2})).ok());
  EXPECT_EQ(auditor_->Judge(Scores(0, {2, 1})).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(LeakAuditorTest, ForgetsBatchesBeyondTheWindow) {
  for (uint32_t batch = 0; batch < 3; ++batch) {
    auditor_->Remember(Batch(batch, {1, 0}, -1));
  }
  EXPECT_EQ(auditor_->Judge(Scores(0, {1, 2})).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(auditor_->Judge(Scores(1, {1, 2})).ok());
}

TEST_F(LeakAuditorTest, RefusesScoresOfAnotherLengthOrNotFinite) {
  auditor_->Remember(Batch(0, {1, 0}, -1));
  EXPECT_EQ(auditor_->Judge(Scores(0, {1, 2, 3})).status().code(), absl::StatusCode::kInvalidArgument);
  v1::ScoreBatchRequest not_finite = Scores(0, {1, 2});
  const float nan = NAN;  // No encoder would send it.
  not_finite.mutable_scores(0)->mutable_scores()->mutable_data()->replace(
      0, sizeof(nan), reinterpret_cast<const char*>(&nan), sizeof(nan));
  EXPECT_EQ(auditor_->Judge(not_finite).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(auditor_->Judge(Scores(0, {1, 2})).ok());
}

TEST_F(LeakAuditorTest, RefusesAnAttackThatWasNotAgreed) {
  auditor_->Remember(Batch(0, {1, 0}, -1));
  v1::ScoreBatchRequest request = Scores(0, {1, 2});
  request.mutable_scores(0)->set_attack(v1::COSINE);
  EXPECT_EQ(auditor_->Judge(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LeakAuditorTest, AHintAttackIsJudgedWithTheAgreedNumberOfHints) {
  v1::AuditAgreement& audit = *agreement_.mutable_audit();
  audit.clear_attacks();
  audit.add_attacks(v1::HINT_DISTANCE);
  audit.clear_hint_counts();
  audit.add_hint_counts(2);
  auditor_ = std::make_unique<LeakAuditor>(agreement_, v1::LabelSideAudit(), ExampleSample(100), ledger_.get());
  ReleasedBatch batch = Batch(0, {1, 1, 1, 0}, 0);
  batch.hint_rows = {0, 1};
  auditor_->Remember(batch);
  v1::ScoreBatchRequest request = Scores(0, {9, 9, 2, 1});
  request.mutable_scores(0)->set_attack(v1::HINT_DISTANCE);
  for (uint32_t other : {0u, 1u, 5u, 0x80000002u}) {
    request.mutable_scores(0)->set_hint_count(other);
    EXPECT_EQ(auditor_->Judge(request).status().code(), absl::StatusCode::kInvalidArgument) << other;
  }
  request.mutable_scores(0)->set_hint_count(2);
  const auto response = auditor_->Judge(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->leaks_size(), 1);
  EXPECT_EQ(response->leaks(0).hint_count(), 2);
  EXPECT_EQ(response->leaks(0).auc(), 1);  // Rows 2 and 3 are left: the hints are not among them.
  EXPECT_EQ(auditor_->series().at({"cut", "hint_distance_2"}), StepSeries{1});
}

// The label party chooses its own numbers of hints.
TEST_F(LeakAuditorTest, OwnHintAttacksRunWithTheConfiguredNumbersOfHints) {
  v1::LabelSideAudit config;
  config.add_attacks(v1::HINT_DISTANCE);
  config.add_attacks(v1::HINT_INNER_PRODUCT);
  const auto attacks = [&] {
    auditor_ = std::make_unique<LeakAuditor>(agreement_, config, ExampleSample(100), ledger_.get());
    static uint32_t step = 0;
    ReleasedBatch batch = Batch(step++, {1, 1, 1, 0, 0, 0}, 0);
    auditor_->Remember(batch);
    const Matrix released(6, 2);
    EXPECT_TRUE(auditor_->AuditRelease({released, released, released}).ok());
    std::vector<std::string> names;
    for (const auto& [key, aucs] : auditor_->series()) {
      names.push_back(key.second);
    }
    return names;
  };
  EXPECT_EQ(attacks(),
            (std::vector<std::string>{"hint_distance_1", "hint_distance_3", "hint_distance_5", "hint_inner_product_1",
                                      "hint_inner_product_3", "hint_inner_product_5"}));
  config.add_hint_counts(4);
  EXPECT_EQ(attacks(), (std::vector<std::string>{"hint_distance_4", "hint_inner_product_4"}));
}

TEST_F(LeakAuditorTest, RefusesToAuditOtherGradientsThanReleased) {
  EXPECT_FALSE(auditor_->AuditRelease({kTwoRows, kTwoRows, kTwoRows}).ok());
  auditor_->Remember(Batch(0, {1, 0}, -1));
  EXPECT_FALSE(auditor_->AuditRelease({kThreeRows, kThreeRows, kThreeRows}).ok());
}

}  // namespace
}  // namespace splitveil::testing
