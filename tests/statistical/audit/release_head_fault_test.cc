// A release head that learns from the true labels: the one fault that no residual shows, since p is taken out of it. On
// labels that are drawn at random no feature tells of them, and p itself is the score: an honest head remembers noised
// labels and keeps below the claim, as all that is computed from them; the faulty one remembers the labels.
//
// A hundred runs each of the real two-headed model, 600 examples of 300 features, so that it can remember. Fixed seeds.
// The scores of one run depend on one another through the model, which LowerBoundMu's promise does not cover: measured,
// none of 1000 honest runs was refuted (upper 95% limit 0.4%), at which more than 5 of 100 are with probability below
// 1e-5, and 993 of 1000 faulty ones were, at which fewer than 95 of 100 are with probability below 1e-3.
#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <vector>

#include "common/crypto/label_noise.h"
#include "common/crypto/sha256.h"
#include "common/privacy/mu_lower_bound.h"
#include "label_party/top/release_head_models.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

constexpr int kRuns = 100;
constexpr int kSteps = 60;
constexpr int64_t kExamples = 600, kCols = 300;
constexpr double kSigma = 1;

enum class LearnsFrom { kNoisedLabels, kTrueLabels };

// What the scores of the release head refute of mu = 1 / sigma.
double MuLower(LearnsFrom from, int seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  const Matrix activations = RandomMatrix(kExamples, kCols, random);
  LabelNoise noise =
      *LabelNoise::Create(SecretKey(std::array<uint8_t, 32>{'h', 'e', 'a', 'd', static_cast<uint8_t>(seed),
                                                            static_cast<uint8_t>(seed >> 8)}),
                          Sha256("release head"), {*SigmaUnits(kSigma)});
  std::vector<float> labels;
  std::vector<float> targets;
  for (int64_t j = 0; j < kExamples; ++j) {
    labels.push_back(static_cast<float>(random() >> 31));
    const int64_t noised = LabelOnGrid(labels.back()) + noise.At(NoiseRow::OfIndex(static_cast<uint64_t>(j)), 0);
    targets.push_back(from == LearnsFrom::kTrueLabels ? labels.back()
                                                      : std::ldexp(static_cast<float>(noised), -kLabelGridBits));
  }
  TopModelOptions options;
  options.optimizer = MakeAdam(1e-2);
  options.cut_width = kCols;
  options.seed = static_cast<uint64_t>(seed);
  const std::unique_ptr<TopModel> model =
      *MakeTwoHeadedTopModel(*TopModel::Create(options), *TopModel::Create(options), 1);
  FeatureBatch none;
  none.rows = kExamples;
  std::vector<float> scores;
  for (int step = 0; step < kSteps; ++step) {
    const absl::StatusOr<TopStep> learned = model->ForwardBackward(activations, none, labels, {targets});
    EXPECT_TRUE(learned.ok()) << learned.status();
    scores.assign(learned->predictions.begin(), learned->predictions.end());
    EXPECT_TRUE(model->Update().ok());
  }
  const absl::StatusOr<MuLowerBound> bound = LowerBoundMu(scores, std::vector<uint8_t>(labels.begin(), labels.end()));
  EXPECT_TRUE(bound.ok()) << bound.status();
  return bound->mu_lower;
}

int Refuted(LearnsFrom from) {
  int refuted = 0;
  for (int seed = 0; seed < kRuns; ++seed) {
    refuted += MuLower(from, seed) > 1 / kSigma ? 1 : 0;
  }
  ::testing::Test::RecordProperty("refuted", refuted);
  return refuted;
}

TEST(ReleaseHeadFaultTest, AHeadThatLearnsFromNoisedLabelsIsRarelyRefuted) {
  EXPECT_LE(Refuted(LearnsFrom::kNoisedLabels), 5);
}

TEST(ReleaseHeadFaultTest, AHeadThatLearnsFromTheLabelsIsFound) { EXPECT_GE(Refuted(LearnsFrom::kTrueLabels), 95); }

}  // namespace
}  // namespace splitveil
