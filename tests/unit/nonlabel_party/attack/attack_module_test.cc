#include "nonlabel_party/attack/attack_module.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <iterator>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

// Gradients (3, 4), (-3, -4), (4, -3) at one layer.
LayerGradient GradientAt(const char* layer) {
  LayerGradient gradient{layer, Matrix(3, 2)};
  const float values[] = {3, 4, -3, -4, 4, -3};
  std::copy(std::begin(values), std::end(values), gradient.gradient.data());
  return gradient;
}

class AttackModuleTest : public ::testing::Test {
 protected:
  AttackModuleTest() {
    gradients_.push_back(GradientAt("cut"));
    gradients_.push_back(GradientAt("first"));
    activations_ = gradients_[0].gradient;
    audit_.add_layers("cut");
    audit_.add_layers("first");
  }

  AttackModule Agree(const std::vector<v1::Attack>& attacks) {
    for (v1::Attack attack : attacks) {
      audit_.add_attacks(attack);
    }
    return AttackModule(audit_, 10);
  }

  AttackedBatch Batch() const {
    AttackedBatch batch;
    batch.gradients = gradients_;
    batch.positions = positions_;
    batch.activations = activations_;
    batch.hint_rows = hint_rows_;
    batch.clean_positives = clean_positives_;
    return batch;
  }

  v1::AuditAgreement audit_;
  std::vector<LayerGradient> gradients_;
  std::vector<uint32_t> positions_ = {7, 2, 5};
  Matrix activations_;
  std::vector<uint32_t> hint_rows_ = {0};
  std::vector<std::vector<float>> clean_positives_ = {{3, 4}, {4, -3}};
};

TEST_F(AttackModuleTest, ScoresWhatIsAgreedInThatOrder) {
  AttackModule module = Agree({v1::NORM, v1::ACTIVATION_CLUSTERS, v1::COSINE});
  const auto scores = module.Score(Batch());
  ASSERT_TRUE(scores.ok()) << scores.status();
  const std::vector<AgreedScore> agreed = AgreedScores(audit_);
  ASSERT_EQ(agreed.size(), 5);  // Activations at the cut only.
  ASSERT_EQ(scores->size(), agreed.size());
  for (size_t i = 0; i < agreed.size(); ++i) {
    EXPECT_EQ((*scores)[i].layer, agreed[i].layer);
    EXPECT_TRUE((*scores)[i].attack == agreed[i].attack);
    EXPECT_EQ((*scores)[i].scores.size(), 3);
  }
}

TEST_F(AttackModuleTest, HintAttacksRunWithEachAgreedNumberOfHints) {
  hint_rows_ = {0, 2};
  audit_.add_hint_counts(1);
  audit_.add_hint_counts(2);
  AttackModule module = Agree({v1::HINT_DISTANCE});
  const auto scores = module.Score(Batch());
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->size(), 4);
  EXPECT_TRUE((*scores)[1].attack == AttackVariant(v1::HINT_DISTANCE, 2));
  EXPECT_LT((*scores)[0].scores[2], -1);  // Far from row 0,
  EXPECT_EQ((*scores)[1].scores[2], 0);   // and a hint itself.
}

TEST_F(AttackModuleTest, EachLayerIsScoredByItsOwnGradients) {
  for (float& value : absl::MakeSpan(gradients_[1].gradient.data(), 6)) {
    value *= 2;
  }
  AttackModule module = Agree({v1::NORM, v1::COSINE});
  const auto scores = module.Score(Batch());
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ((*scores)[0].scores, (std::vector<float>{5, 5, 5}));
  EXPECT_NEAR((*scores)[1].scores[0], 1, 1e-6);  // (3, 4) with (3, 4).
  EXPECT_NEAR((*scores)[1].scores[1], -1, 1e-6);
  EXPECT_EQ((*scores)[2].scores, (std::vector<float>{10, 10, 10}));
  EXPECT_NEAR((*scores)[3].scores[2], 1, 1e-6);  // (8, -6) with (4, -3).
}

TEST_F(AttackModuleTest, ABatchThatIsNotScoredIsRememberedAllTheSame) {
  AttackModule scored = Agree({v1::CUMULATIVE_SPECTRAL, v1::NORM});
  AttackModule remembered(audit_, 10);
  ASSERT_TRUE(scored.Score(Batch()).ok());
  ASSERT_TRUE(remembered.Remember(Batch()).ok());
  EXPECT_EQ((*remembered.Score(Batch()))[0].scores, (*scored.Score(Batch()))[0].scores);
  EXPECT_NE((*remembered.Score(Batch()))[0].scores, (*AttackModule(audit_, 10).Score(Batch()))[0].scores);
}

TEST_F(AttackModuleTest, AnAttackThatLearnsTakesInABatchThatIsNotScored) {
  AttackModule scored = Agree({v1::SURROGATE_HEAD, v1::UNSPLIT});
  EXPECT_TRUE(scored.remembers() && scored.needs_activations());
  AttackModule remembered(audit_, 10);
  ASSERT_TRUE(scored.Score(Batch()).ok());
  ASSERT_TRUE(remembered.Remember(Batch()).ok());
  const auto expected = scored.Score(Batch());
  const auto found = remembered.Score(Batch());
  ASSERT_TRUE(expected.ok() && found.ok());
  ASSERT_EQ(found->size(), 2);  // At the cut only.
  EXPECT_EQ((*found)[0].scores, (*expected)[0].scores);
  EXPECT_EQ((*found)[1].scores, (*expected)[1].scores);
}

TEST_F(AttackModuleTest, ABatchWithoutHintsCanBeRememberedButNotScored) {
  AttackModule module = Agree({v1::COSINE, v1::CUMULATIVE_SPECTRAL});
  hint_rows_.clear();
  clean_positives_.clear();
  EXPECT_TRUE(module.Remember(Batch()).ok());
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AttackModuleTest, SaysWhatItNeeds) {
  EXPECT_TRUE(AttackModule(audit_, 10).empty());
  const AttackModule norm = Agree({v1::NORM});
  EXPECT_FALSE(norm.empty() || norm.remembers() || norm.needs_activations() || norm.needs_oracle());
  const AttackModule all = Agree({v1::HINT_DISTANCE, v1::ACTIVATION_CLUSTERS, v1::CUMULATIVE_SPECTRAL});
  EXPECT_TRUE(all.remembers() && all.needs_activations() && all.needs_oracle());
  audit_.clear_layers();
  audit_.add_layers("first");
  EXPECT_FALSE(AttackModule(audit_, 10).needs_activations());
}

TEST_F(AttackModuleTest, FailsWithoutAnAgreedLayer) {
  AttackModule module = Agree({v1::NORM});
  gradients_.pop_back();
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module.Remember(Batch()).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AttackModuleTest, FailsWithHintsThatDoNotFit) {
  AttackModule module = Agree({v1::COSINE});
  clean_positives_[0] = {1, 2, 3};
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kInvalidArgument);
  clean_positives_ = {{3, 4}};
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kInvalidArgument);
  clean_positives_ = {{3, 4}, {4, -3}};
  hint_rows_ = {3};
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AttackModuleTest, FailsWithPositionsBeyondTheAlignedExamples) {
  AttackModule module = Agree({v1::NORM});
  positions_[1] = 10;
  EXPECT_EQ(module.Score(Batch()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AttackModuleTest, UnknownAttackFails) {
  EXPECT_EQ(Agree({v1::ATTACK_UNSPECIFIED}).Score(Batch()).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace splitveil
