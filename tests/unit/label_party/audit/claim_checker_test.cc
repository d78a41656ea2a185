#include "label_party/audit/claim_checker.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/checkpoint/progress_archive.h"
#include "common/matrix/matrix.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Releases of (p - y) v in two columns, with nothing added, whatever is claimed.
class ClaimCheckerTest : public ::testing::Test {
 protected:
  explicit ClaimCheckerTest(size_t rows = 400) {
    for (size_t j = 0; j < rows; ++j) {
      batch_.positions.push_back(static_cast<uint32_t>(j));
      batch_.labels.push_back(j % 4 == 0 ? 1 : 0);
    }
  }

  std::optional<ClaimCheckRow> Audit() {
    ClaimChecker audit{ExampleSample(static_cast<int64_t>(batch_.labels.size()))};
    AddTo(audit);
    return audit.Finish();
  }

  void AddTo(ClaimChecker& audit) {
    const auto rows = static_cast<int64_t>(batch_.labels.size());
    Matrix directions(rows, 2), released(rows, 2);
    for (int64_t j = 0; j < rows; ++j) {
      directions.row(j)[0] = length_;
      released.row(j)[0] = length_ * (0.5F - static_cast<float>(batch_.labels[static_cast<size_t>(j)]));
    }
    const std::vector<float> probabilities(batch_.labels.size(), 0.5F), line = {1, 0};
    head_.label_directions = directions;
    head_.probabilities = probabilities;
    head_.noise_direction = line;
    head_.noise_negative = evidence_.noise_negative;
    head_.noise_positive = evidence_.noise_positive;
    evidence_.released = released;
    audit.Add(batch_, evidence_, head_);
  }

  void ManyExamples() {
    batch_.positions.clear();
    batch_.labels.clear();
    for (uint32_t j = 0; j < 20'000; ++j) {
      batch_.positions.push_back(j);
      batch_.labels.push_back(j % 4 == 0 ? 1 : 0);
    }
  }

  void ClaimLabelNoise() {
    evidence_.has_label_noise = evidence_.releases_repeat = true;
    evidence_.noise_negative = evidence_.noise_positive = {kNan, kNan};
    evidence_.sum_kl = evidence_.accumulated_sum_kl = 0.25;
  }
  void ClaimGradientNoise() {
    evidence_.noise_negative = evidence_.noise_positive = {4, 4};
    evidence_.sum_kl = evidence_.accumulated_sum_kl = 0.25;
  }

  ReleasedBatch batch_;
  ReleaseEvidence evidence_;
  ReleasingHead head_;
  float length_ = 1;  // Of the directions.
};

TEST_F(ClaimCheckerTest, AClaimOfNoiseThatIsNotThereIsRefuted) {
  ClaimLabelNoise();
  const std::optional<ClaimCheckRow> row = Audit();
  ASSERT_TRUE(row.has_value());
  EXPECT_DOUBLE_EQ(row->claimed_mu, 0.5);
  EXPECT_GT(row->mu_lower, 2);  // As far as 50 positives and 150 negatives can tell.
  EXPECT_TRUE(row->is_refuted());
  EXPECT_GT(row->claimed_epsilon, 1);
  EXPECT_EQ(row->confidence, 0.95);
  EXPECT_EQ(row->failing_confidence, ClaimChecker::kFailingConfidence);
  EXPECT_GT(row->failing_mu_lower, 0.5);
  EXPECT_LE(row->failing_mu_lower, row->mu_lower);
  EXPECT_FALSE(row->is_conclusive());  // 100 positives would not have told half of the noise from all of it.
}

TEST_F(ClaimCheckerTest, NoiseOnGradientsIsHeldAsWell) {
  ClaimGradientNoise();
  const std::optional<ClaimCheckRow> row = Audit();
  ASSERT_TRUE(row.has_value());
  EXPECT_TRUE(row->is_refuted());
}

// Flipped labels of epsilon 1: mu = 2 Phi^-1(0.731059) = 1.232035 (Python's statistics.NormalDist).
class FlippedLabelsTest : public ::testing::Test {
 protected:
  static constexpr int kExamples = 20'000;
  static constexpr double kMu = 1.232035;

  FlippedLabelsTest() {
    evidence_.has_flipped_labels = evidence_.releases_repeat = true;
    evidence_.noise_negative = evidence_.noise_positive = {kNan, kNan};
    evidence_.sum_kl = evidence_.accumulated_sum_kl = 0.759;
    evidence_.run_sum_kl = kMu * kMu;
    for (int j = 0; j < kExamples; ++j) {
      batch_.positions.push_back(static_cast<uint32_t>(j));
      batch_.labels.push_back(j % 4 == 0 ? 1 : 0);
    }
  }

  // One release of each example: (p - y) v as a float16, where p follows the true label. Every third row has
  // `direction`.
  void Release(ClaimChecker& audit, uint32_t epoch, double flip_probability, float direction = 1) {
    Matrix directions(kExamples, 2), released(kExamples, 2);
    std::vector<float> probabilities;
    std::bernoulli_distribution flip(flip_probability);
    for (int64_t j = 0; j < kExamples; ++j) {
      const uint8_t label = batch_.labels[static_cast<size_t>(j)];
      const float target = flip(generator_) ? 1.0F - label : label;
      probabilities.push_back(label == 1 ? 0.97F : 0.03F);
      directions.row(j)[0] = j % 3 == 0 ? direction : 1;
      released.row(j)[0] = (probabilities.back() - target) * directions.row(j)[0];
    }
    v1::Tensor wire;
    ASSERT_TRUE(EncodeMatrix(released, v1::FLOAT16, wire).ok());
    const absl::StatusOr<Matrix> read = DecodeMatrix(wire, {"gradients", v1::FLOAT16, kExamples, 2});
    ASSERT_TRUE(read.ok());
    ReleasingHead head;
    head.has_flipped_label = true;
    head.rounding = RoundingOf(v1::FLOAT16);
    head.label_directions = directions;
    head.probabilities = probabilities;
    batch_.epoch = epoch;
    evidence_.released = *read;
    audit.Add(batch_, evidence_, head);
  }

  std::mt19937_64 generator_{7};
  ReleasedBatch batch_;
  ReleaseEvidence evidence_;
};

TEST_F(FlippedLabelsTest, FlipsAsClaimedAreNotRefutedHoweverWellFeaturesTellTheLabels) {
  const double flipped = 1 / (1 + std::exp(1.0));
  for (const float direction : {1.0F, 1e-3F, 1e-6F}) {  // The last is below what a float16 holds of p - y.
    ClaimChecker audit{ExampleSample(kExamples)};
    Release(audit, 0, flipped, direction);
    const std::optional<ClaimCheckRow> row = audit.Finish();
    ASSERT_TRUE(row.has_value());
    EXPECT_NEAR(row->claimed_mu, kMu, 1e-9);
    EXPECT_FALSE(row->is_refuted()) << direction;
    EXPECT_TRUE(row->is_conclusive());
  }
}

TEST_F(ClaimCheckerTest, TestsTheSampleAlone) {
  ManyExamples();
  ClaimLabelNoise();
  ClaimChecker audit(ExampleSample(20'000, 5'000));
  AddTo(audit);
  const std::optional<ClaimCheckRow> row = audit.Finish();
  ASSERT_TRUE(row.has_value());
  EXPECT_TRUE(row->is_refuted());
  EXPECT_EQ(row->examples, 5'000);
}

TEST_F(FlippedLabelsTest, TooFewFlipsAreRefuted) {
  ClaimChecker audit{ExampleSample(kExamples)};
  Release(audit, 0, 0.2);  // mu 1.683.
  const std::optional<ClaimCheckRow> row = audit.Finish();
  ASSERT_TRUE(row.has_value());
  EXPECT_TRUE(row->is_refuted());
  EXPECT_NEAR(row->mu_lower, 1.683, 0.15);
}

TEST_F(FlippedLabelsTest, FlipsDrawnAgainInEachEpochAreRefuted) {
  ClaimChecker audit{ExampleSample(kExamples)};
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    Release(audit, epoch, 1 / (1 + std::exp(1.0)));
  }
  const std::optional<ClaimCheckRow> row = audit.Finish();
  ASSERT_TRUE(row.has_value());
  EXPECT_TRUE(row->is_refuted());
}

TEST_F(ClaimCheckerTest, WhatClaimsNothingIsNotHeldToAnything) {
  EXPECT_FALSE(Audit().has_value());  // sum_kl 0: no accountant.
  ClaimLabelNoise();
  evidence_.has_label_noise = false;  // Randomised response: not the Gaussian mechanism.
  EXPECT_FALSE(Audit().has_value());
  ClaimLabelNoise();
  evidence_.sum_kl = kNan;
  EXPECT_FALSE(Audit().has_value());
  ClaimLabelNoise();
  evidence_.accumulated_sum_kl = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Audit().has_value());
}

TEST_F(ClaimCheckerTest, TheLineOfNoiseOnABatchOfOneClassIsNotKnown) {
  ClaimGradientNoise();
  batch_.labels.assign(batch_.labels.size(), 0);
  EXPECT_FALSE(Audit().has_value());
}

TEST_F(ClaimCheckerTest, ManyExamplesMakeItConclusive) {
  ClaimLabelNoise();
  ManyExamples();
  EXPECT_TRUE(Audit()->is_conclusive());
  EXPECT_LT(Audit()->half_noise_mu_lower, 1);
}

// A peer's activations can make gradients so small that nothing is left of them on the wire: what nobody could have
// seen is no finding.
TEST_F(ClaimCheckerTest, WhatRoundingHidesIsNotConclusive) {
  ClaimLabelNoise();
  ManyExamples();
  head_.rounding = evidence_.rounding = RoundingOf(v1::FLOAT16);
  EXPECT_TRUE(Audit()->is_conclusive());
  length_ = 1e-9F;
  const std::optional<ClaimCheckRow> row = Audit();
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->mu_lower, 0);
  EXPECT_FALSE(row->is_conclusive());
}

// Of a run that another one began, the first draws are claimed and not seen: half of the noise is found less surely.
TEST_F(ClaimCheckerTest, WhatIsFoundGoesByTheDrawsThatAreSeen) {
  ManyExamples();
  ClaimLabelNoise();
  const double of_one_draw = Audit()->half_noise_mu_lower;
  evidence_.releases_repeat = false;
  batch_.epoch = 3;
  evidence_.accumulated_sum_kl = 1;
  const std::optional<ClaimCheckRow> row = Audit();
  EXPECT_DOUBLE_EQ(row->claimed_mu, 1);
  EXPECT_NEAR(row->half_noise_mu_lower, of_one_draw, 1e-9);
  EXPECT_FALSE(row->is_conclusive());
  evidence_.run_sum_kl = 2.25;  // More draws are to come.
  EXPECT_DOUBLE_EQ(Audit()->claimed_mu, 1.5);
}

// What a run that was interrupted says of its claim is what it would have said.
TEST_F(ClaimCheckerTest, WhatWasSeenGoesOnInAContinuedRun) {
  ManyExamples();
  ClaimLabelNoise();
  evidence_.releases_repeat = false;
  evidence_.run_sum_kl = 1.25;
  ClaimChecker audit{ExampleSample(static_cast<int64_t>(batch_.labels.size()))},
      continued{ExampleSample(static_cast<int64_t>(batch_.labels.size()))};
  for (batch_.epoch = 0; batch_.epoch < 5; ++batch_.epoch) {
    evidence_.accumulated_sum_kl = 0.25 * (batch_.epoch + 1);
    AddTo(audit);
  }
  ASSERT_TRUE(LoadProgress(SaveProgress(audit), continued).ok());
  EXPECT_GT(audit.Finish()->half_noise_mu_lower, 1);
  EXPECT_DOUBLE_EQ(continued.Finish()->half_noise_mu_lower, audit.Finish()->half_noise_mu_lower);
  EXPECT_EQ(continued.Finish()->is_conclusive(), audit.Finish()->is_conclusive());
}

class TinyClaimCheckerTest : public ClaimCheckerTest {
 protected:
  TinyClaimCheckerTest() : ClaimCheckerTest(4) {}
};

TEST_F(TinyClaimCheckerTest, OneExampleOfAClassIsTooFew) {
  ClaimLabelNoise();
  EXPECT_FALSE(Audit().has_value());
}

}  // namespace
}  // namespace splitveil
