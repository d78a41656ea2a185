#include "label_party/attack/attribute_decoder.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "common/dataset/features.h"
#include "tests/unit/label_party/attack/attribute_examples.h"

namespace splitveil {
namespace {

constexpr int64_t kTrials = 20000;
constexpr double kLearningLoss = 0.01;

double NormalCdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

std::unique_ptr<AttributeDecoder> Make(const AttributeDecoder::Options& options) {
  auto decoder = AttributeDecoder::Create(options);
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  return *std::move(decoder);
}

Matrix Guess(const AttributeDecoder& decoder, ConstMatrixView activations) {
  auto scores = decoder.Guess(activations);
  EXPECT_TRUE(scores.ok()) << scores.status();
  return *std::move(scores);
}

double Accuracy(const AttributeDecoder::Options& options, const AttributeSample& known, const AttributeSample& fresh) {
  const std::unique_ptr<AttributeDecoder> decoder = Make(options);
  const absl::Status learnt = decoder->Learn(known.activations, known.values);
  EXPECT_TRUE(learnt.ok()) << learnt;
  return AccuracyOf(Guess(*decoder, fresh.activations), fresh.values);
}

AttributeDecoder::Options OptionsOf(int64_t width, int64_t values, const std::vector<int>& hidden, int passes = 20) {
  AttributeDecoder::Options options;
  options.input_width = width;
  options.values = values;
  options.hidden = DenseModel(hidden);
  options.passes = passes;
  options.seed = 7;
  return options;
}

TEST(AttributeDecoderTest, ReachesTheBayesAccuracyOfTwoGaussians) {
  // Equally likely, delta = 2 apart: no classifier is right more often than Phi(delta / 2).
  const std::vector<std::vector<float>> centres = {{-0.6F, 0, 0.8F, 0}, {0.6F, 0, -0.8F, 0}};
  const double bayes = NormalCdf(1);
  const AttributeSample known = DrawGaussians(centres, {1, 1}, 6000, 1);
  const AttributeSample fresh = DrawGaussians(centres, {1, 1}, kTrials, 2);
  for (const std::vector<int>& hidden : {std::vector<int>{}, std::vector<int>{64, 32}}) {
    const double accuracy = Accuracy(OptionsOf(4, 2, hidden), known, fresh);
    EXPECT_GT(accuracy, bayes - kLearningLoss - 4 * FractionSpread(bayes, kTrials)) << hidden.size();
    EXPECT_LT(accuracy, bayes + 4 * FractionSpread(bayes, kTrials)) << hidden.size();
  }
}

TEST(AttributeDecoderTest, ReachesItWhateverTheScaleOfTheActivations) {
  const double bayes = NormalCdf(1);
  std::vector<AttributeSample> samples = {DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 6000, 1),
                                          DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, kTrials, 2)};
  for (AttributeSample& sample : samples) {
    for (int64_t j = 0; j < sample.activations.rows(); ++j) {
      sample.activations.row(j)[0] = 1e-4F * sample.activations.row(j)[0] + 3;
      sample.activations.row(j)[1] *= 1000;
    }
  }
  EXPECT_GT(Accuracy(OptionsOf(2, 2, {}), samples[0], samples[1]),
            bayes - kLearningLoss - 4 * FractionSpread(bayes, kTrials));
}

TEST(AttributeDecoderTest, ReachesItWhereAllActivationsHaveMovedSince) {
  const double bayes = NormalCdf(1);
  const AttributeSample known = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 6000, 1);
  AttributeSample fresh = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, kTrials, 2);
  for (int64_t j = 0; j < fresh.activations.rows(); ++j) {
    fresh.activations.row(j)[0] = 1.5F * fresh.activations.row(j)[0] + 3;  // As the learnt ones, all were of one value.
  }
  EXPECT_GT(Accuracy(OptionsOf(2, 2, {}), known, fresh), bayes - kLearningLoss - 4 * FractionSpread(bayes, kTrials));
}

TEST(AttributeDecoderTest, FewAreGuessedAtTheScaleOfThoseItLearntFrom) {
  const AttributeSample known = DrawGaussians({{-3, 0}, {3, 0}}, {1, 1}, 6000, 1);
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(2, 2, {}));
  ASSERT_TRUE(decoder->Learn(known.activations, known.values).ok());
  Matrix alone(1, 2);
  alone.row(0)[0] = 3;
  EXPECT_GT(Guess(*decoder, alone).row(0)[1], std::log(0.9F));
}

TEST(AttributeDecoderTest, OfNoiseGuessesTheMostFrequentValue) {
  // Nothing independent of the values is right more often than the most frequent one is.
  const AttributeSample known = DrawGaussians({{0, 0, 0, 0}, {0, 0, 0, 0}}, {3, 7}, 2000, 3);
  const AttributeSample fresh = DrawGaussians({{0, 0, 0, 0}, {0, 0, 0, 0}}, {3, 7}, kTrials, 4);
  for (const std::vector<int>& hidden : {std::vector<int>{}, std::vector<int>{64, 32}}) {
    const double accuracy = Accuracy(OptionsOf(4, 2, hidden), known, fresh);
    EXPECT_GT(accuracy, 0.7 - kLearningLoss - 4 * FractionSpread(0.7, kTrials)) << hidden.size();
    EXPECT_LT(accuracy, 0.7 + 4 * FractionSpread(0.7, kTrials)) << hidden.size();
  }
}

TEST(AttributeDecoderTest, LayersReadWhatALinearProbeCannot) {
  // The value is whether the signs of two numbers, each 2 from 0, are alike. By symmetry no linear function tells.
  const auto draw = [](int64_t rows, uint64_t seed) {
    AttributeSample sample = DrawGaussians({{2, 2}, {2, -2}, {-2, -2}, {-2, 2}}, {1, 1, 1, 1}, rows, seed);
    for (uint8_t& value : sample.values) {
      value %= 2;
    }
    return sample;
  };
  const AttributeSample known = draw(6000, 5);
  const AttributeSample fresh = draw(kTrials, 6);
  // Both signs right, or both wrong.
  const double bayes = NormalCdf(2) * NormalCdf(2) + NormalCdf(-2) * NormalCdf(-2);
  EXPECT_GT(Accuracy(OptionsOf(2, 2, {64, 32}), known, fresh),
            bayes - kLearningLoss - 4 * FractionSpread(bayes, kTrials));
  EXPECT_LT(Accuracy(OptionsOf(2, 2, {}), known, fresh), 0.6);
}

TEST(AttributeDecoderTest, ReadsSixValues) {
  std::vector<std::vector<float>> centres;
  for (int k = 0; k < 6; ++k) {
    centres.push_back({2.5F * std::cos(static_cast<float>(k)), 2.5F * std::sin(static_cast<float>(k))});
  }
  const AttributeSample known = DrawGaussians(centres, std::vector<double>(6, 1), 12000, 7);
  const AttributeSample fresh = DrawGaussians(centres, std::vector<double>(6, 1), kTrials, 8);
  // The best classifier takes the nearest centre. Tried on the same draws, so that most of their chance drops out.
  Matrix nearest(kTrials, 6);
  for (int64_t j = 0; j < kTrials; ++j) {
    for (size_t k = 0; k < 6; ++k) {
      nearest.row(j)[k] =
          -std::hypot(fresh.activations.row(j)[0] - centres[k][0], fresh.activations.row(j)[1] - centres[k][1]);
    }
  }
  const double bayes = AccuracyOf(nearest, fresh.values);
  EXPECT_NEAR(Accuracy(OptionsOf(2, 6, {64, 32}), known, fresh), bayes, kLearningLoss);
}

TEST(AttributeDecoderTest, ScoresAreLogProbabilities) {
  // Of two Gaussians with equal priors the log odds are a linear function: delta (x - middle).
  const AttributeSample known = DrawGaussians({{-1}, {1}}, {1, 1}, 20000, 9);
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(1, 2, {}, 40));
  ASSERT_TRUE(decoder->Learn(known.activations, known.values).ok());
  const std::vector<float> at = {-1.5F, 0, 1};
  const Matrix scores = Guess(*decoder, ConstMatrixView(at.data(), 3, 1));
  for (int64_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(std::exp(scores.row(j)[0]) + std::exp(scores.row(j)[1]), 1, 1e-5);
    EXPECT_NEAR(scores.row(j)[1] - scores.row(j)[0], 2 * at[j], 0.2);
  }
}

TEST(AttributeDecoderTest, UnknownValuesHaveNoPart) {
  const AttributeSample known = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 300, 10);
  AttributeSample mixed;
  mixed.activations = Matrix(600, 2);
  for (int64_t j = 0; j < 300; ++j) {
    mixed.activations.SetBlock(2 * j, known.activations.block(j, 1));
    mixed.activations.row(2 * j + 1)[0] = std::numeric_limits<float>::quiet_NaN();
    mixed.values.push_back(known.values[j]);
    mixed.values.push_back(kUnknownAttribute);
  }
  std::vector<Matrix> scores;
  for (const AttributeSample* sample : {&known, static_cast<const AttributeSample*>(&mixed)}) {
    const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(2, 2, {8}));
    ASSERT_TRUE(decoder->Learn(sample->activations, sample->values).ok());
    scores.push_back(Guess(*decoder, known.activations));
  }
  EXPECT_EQ(ConstMatrixView(scores[0]).values(), ConstMatrixView(scores[1]).values());
}

TEST(AttributeDecoderTest, DoesNotLearnItsExamplesByHeart) {
  // 100 examples of pure noise, 300 passes and far more weights than examples: without those held out the decoder would
  // be sure of values it cannot know, at several nats a guess.
  const std::vector<std::vector<float>> centres(2, std::vector<float>(20, 0));
  const AttributeSample known = DrawGaussians(centres, {1, 1}, 100, 11);
  const AttributeSample fresh = DrawGaussians(centres, {1, 1}, 2000, 12);
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(20, 2, {64, 32}, 300));
  ASSERT_TRUE(decoder->Learn(known.activations, known.values).ok());
  const Matrix scores = Guess(*decoder, fresh.activations);
  double loss = 0;
  for (int64_t j = 0; j < scores.rows(); ++j) {
    loss -= scores.row(j)[fresh.values[j]] / static_cast<double>(scores.rows());
  }
  EXPECT_LT(loss, std::log(2.0) + 0.2);
}

TEST(AttributeDecoderTest, GoesOnFromWhereItEnded) {
  const AttributeSample known = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 400, 13);
  const AttributeSample fresh = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 4000, 14);
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(2, 2, {16}, 1));
  std::vector<double> margins;
  for (int epoch = 0; epoch < 10; ++epoch) {
    ASSERT_TRUE(decoder->Learn(known.activations, known.values).ok());
    const Matrix scores = Guess(*decoder, fresh.activations);
    double margin = 0;
    for (int64_t j = 0; j < scores.rows(); ++j) {
      margin += scores.row(j)[fresh.values[j]] / static_cast<double>(scores.rows());
    }
    margins.push_back(margin);
  }
  EXPECT_GT(margins.back(), margins.front() + 0.1);
}

TEST(AttributeDecoderTest, EqualSeedsGiveEqualGuesses) {
  const AttributeSample known = DrawGaussians({{-1, 0}, {1, 0}}, {1, 1}, 300, 15);
  std::vector<Matrix> scores;
  for (const uint64_t seed : {1, 1, 2}) {
    AttributeDecoder::Options options = OptionsOf(2, 2, {8}, 3);
    options.seed = seed;
    const std::unique_ptr<AttributeDecoder> decoder = Make(options);
    ASSERT_TRUE(decoder->Learn(known.activations, known.values).ok());
    scores.push_back(Guess(*decoder, known.activations));
  }
  EXPECT_EQ(ConstMatrixView(scores[0]).values(), ConstMatrixView(scores[1]).values());
  EXPECT_NE(ConstMatrixView(scores[0]).values(), ConstMatrixView(scores[2]).values());
}

TEST(AttributeDecoderTest, TakesConvolutionsOfTheActivations) {
  AttributeDecoder::Options options = OptionsOf(16, 2, {});
  v1::Layer& layer = *options.hidden.add_layers();
  layer.set_name("convolution");
  layer.mutable_convolution()->set_channels(3);
  EXPECT_FALSE(AttributeDecoder::Create(options).ok());  // No image.
  options.hidden.mutable_input_image()->set_channels(1);
  options.hidden.mutable_input_image()->set_height(4);
  options.hidden.mutable_input_image()->set_width(4);
  const AttributeSample known =
      DrawGaussians(std::vector<std::vector<float>>(2, std::vector<float>(16)), {1, 1}, 50, 1);
  EXPECT_TRUE(Make(options)->Learn(known.activations, known.values).ok());
}

TEST(AttributeDecoderTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(AttributeDecoder::Create(OptionsOf(2, 1, {})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AttributeDecoder::Create(OptionsOf(2, 255, {})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(AttributeDecoder::Create(OptionsOf(2, 254, {})).ok());
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(2, 2, {}));
  const Matrix activations(2, 2);
  const std::vector<uint8_t> unknown(2, kUnknownAttribute);
  EXPECT_EQ(decoder->Learn(activations, unknown).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Learn(activations, std::vector<uint8_t>{0, 2}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Learn(activations, std::vector<uint8_t>{0}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Learn(Matrix(2, 3), std::vector<uint8_t>{0, 1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(decoder->Guess(Matrix(2, 3)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttributeDecoderTest, ActivationsThatAreNotFiniteAreAnError) {
  const std::unique_ptr<AttributeDecoder> decoder = Make(OptionsOf(1, 2, {4}));
  Matrix activations(20, 1);
  activations.data()[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(decoder->Learn(activations, std::vector<uint8_t>(20, 1)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Make(OptionsOf(1, 2, {4}))->Guess(activations).status().code(), absl::StatusCode::kInternal);
}

using ::testing::ElementsAre;
using ::testing::FloatNear;

Matrix MatrixOf(const std::vector<float>& values, int64_t cols) {
  return Matrix(ConstMatrixView(values.data(), static_cast<int64_t>(values.size()) / cols, cols));
}

TEST(StandardiserTest, BringsColumnsToMeanZeroAndSpreadOne) {
  // Means 3 and 10, standard deviations 2 and 5.
  const Standardiser standardiser(MatrixOf({1, 5, 5, 15}, 2));
  EXPECT_THAT(standardiser.Apply(MatrixOf({1, 5, 5, 15, 3, 20}, 2)).row(0), ElementsAre(-1, -1));
  EXPECT_THAT(standardiser.Apply(MatrixOf({3, 20}, 2)).row(0), ElementsAre(0, 2));
}

TEST(StandardiserTest, AColumnThatDoesNotVaryKeepsItsScale) {
  const Standardiser standardiser(MatrixOf({0, 7.3F, 0, 7.3F, 0, 7.3F}, 2));
  EXPECT_THAT(standardiser.Apply(MatrixOf({2, 8.3F}, 2)).row(0), ElementsAre(2, FloatNear(1, 1e-5)));
}

TEST(StandardiserTest, BackPropagatesAsFiniteDifferencesDo) {
  const Standardiser standardiser(MatrixOf({1, 5, 5, 15}, 2));
  const std::vector<float> weights = {0.5F, -3};  // Of a sum of the results, whose gradient they are.
  const auto sum = [&](float x, float y) {
    const Matrix result = standardiser.Apply(MatrixOf({x, y}, 2));
    return weights[0] * result.data()[0] + weights[1] * result.data()[1];
  };
  Matrix gradient = MatrixOf(weights, 2);
  standardiser.BackPropagate(gradient);
  EXPECT_NEAR(gradient.data()[0], (sum(4, 8) - sum(2, 8)) / 2, 1e-5);
  EXPECT_NEAR(gradient.data()[1], (sum(3, 9) - sum(3, 7)) / 2, 1e-5);
}

TEST(StandardiserTest, OfNoRowsChangesNothing) {
  EXPECT_THAT(Standardiser().Apply(MatrixOf({2, 8}, 2)).row(0), ElementsAre(2, 8));
}

}  // namespace

}  // namespace splitveil
