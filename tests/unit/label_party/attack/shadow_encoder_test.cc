#include "label_party/attack/shadow_encoder.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "label_party/attack/attribute_attack_module.h"
#include "tests/testing/small_table.h"
#include "tests/unit/label_party/attack/attribute_examples.h"

namespace splitveil {
namespace {

constexpr int64_t kSent = 3000;
constexpr uint32_t kOwn = 2000;

// Features are an attribute that three in ten have, and two numbers. The bottom model is linear. The adversary, which
// has other people's features and no activation of theirs, can imitate it: the attribute is told by the shares of the
// two clouds that the activations lie in.
class ShadowEncoderTest : public ::testing::Test {
 protected:
  static AttributeSample Draw(int64_t rows, uint64_t seed) {
    return DrawGaussians({{0, 0, 0}, {5, 0, 0}}, {7, 3}, rows, seed);
  }

  // f(x) = A x + b, to two numbers.
  static Matrix Embed(ConstMatrixView features) {
    Matrix sent(features.rows(), 2);
    for (int64_t j = 0; j < features.rows(); ++j) {
      const auto x = features.row(j);
      sent.row(j)[0] = 0.8F * x[0] + 0.3F * x[1] - 0.2F * x[2];
      sent.row(j)[1] = -0.5F * x[0] + 0.6F * x[1] + 0.4F * x[2];
    }
    return sent;
  }

  static std::shared_ptr<const FeatureTable> Store(ConstMatrixView features) {
    splitveil::testing::SmallTable table;
    std::vector<uint32_t> rows;
    for (int64_t j = 0; j < features.rows(); ++j) {
      table.ids.push_back(std::to_string(j));
      table.numeric.emplace_back(features.row(j).begin(), features.row(j).end());
      rows.push_back(static_cast<uint32_t>(j));
    }
    return std::make_shared<FeatureTable>(table.Store(), rows);
  }

  ShadowEncoderTest() : own_(Draw(kOwn, 1)), theirs_(Draw(kSent, 2)), features_(Store(own_.activations)) {
    options_.model = DenseModel({2}, v1::LINEAR);
    options_.features = features_.get();
    options_.cut_width = 2;
    options_.passes = 100;
    options_.seed = 3;
  }

  AttributeSample own_;     // The adversary's features,
  AttributeSample theirs_;  // the non-label party's.
  std::shared_ptr<const FeatureTable> features_;
  ShadowEncoder::Options options_;
};

TEST_F(ShadowEncoderTest, ImitatesMeansAndSpreadsOfWhatWasSent) {
  const auto encoder = ShadowEncoder::Create(options_);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const Matrix sent = Embed(theirs_.activations);
  for (int epoch = 0; epoch < 3; ++epoch) {
    ASSERT_TRUE((*encoder)->Imitate(sent).ok());
  }
  const auto made = (*encoder)->EncodeAll();
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->rows(), kOwn);
  for (int64_t k = 0; k < 2; ++k) {
    const auto moments = [k](ConstMatrixView rows) {
      double sum = 0;
      double squares = 0;
      for (int64_t j = 0; j < rows.rows(); ++j) {
        sum += rows.row(j)[k];
        squares += static_cast<double>(rows.row(j)[k]) * rows.row(j)[k];
      }
      const double mean = sum / static_cast<double>(rows.rows());
      return std::pair(mean, std::sqrt(squares / static_cast<double>(rows.rows()) - mean * mean));
    };
    const auto [mean, spread] = moments(sent);
    EXPECT_NEAR(moments(*made).first, mean, 0.15 * spread);
    EXPECT_NEAR(moments(*made).second, spread, 0.15 * spread);
  }
}

TEST_F(ShadowEncoderTest, EqualSeedsImitateAlike) {
  options_.passes = 1;
  std::vector<Matrix> made;
  for (int run = 0; run < 2; ++run) {
    const auto encoder = ShadowEncoder::Create(options_);
    ASSERT_TRUE(encoder.ok());
    ASSERT_TRUE((*encoder)->Imitate(Embed(theirs_.activations)).ok());
    made.push_back(*(*encoder)->EncodeAll());
  }
  EXPECT_EQ(ConstMatrixView(made[0]).values(), ConstMatrixView(made[1]).values());
}

TEST_F(ShadowEncoderTest, TakesCategoriesAndImages) {
  splitveil::testing::SmallTable table;
  table.ids = {"0", "1", "2", "3"};
  table.categories = {{1}, {2}, {1}, {2}};
  table.categories_per_column = 2;
  table.image = {1, 2, 2};
  table.pixels = {{0, 255, 0, 255}, {255, 255, 0, 0}, {7, 7, 7, 7}, {255, 0, 255, 0}};
  const Matrix sent = Embed(theirs_.activations);
  const FeatureTable categories_alone = [&] {
    splitveil::testing::SmallTable alone = table;
    alone.image = {};
    alone.pixels.clear();
    return FeatureTable(alone.Store(), std::vector<uint32_t>{0, 1, 2, 3});
  }();
  ShadowEncoder::Options options = options_;
  options.passes = 1;
  options.features = &categories_alone;
  EXPECT_FALSE(ShadowEncoder::Create(options).ok());  // No embedding.
  options.model.mutable_embedding()->set_dimension(2);
  const auto of_categories = ShadowEncoder::Create(options);
  ASSERT_TRUE(of_categories.ok()) << of_categories.status();
  const Matrix before = *(*of_categories)->EncodeAll();
  EXPECT_TRUE((*of_categories)->Imitate(sent).ok());
  const Matrix after = *(*of_categories)->EncodeAll();
  EXPECT_NE(ConstMatrixView(before).values(), ConstMatrixView(after).values());
  EXPECT_EQ(after.row(0), after.row(2));  // The same category.

  table.categories.clear();
  const FeatureTable images(table.Store(), std::vector<uint32_t>{0, 1, 2, 3});
  options.features = &images;
  options.model = {};
  v1::Layer& layer = *options.model.add_layers();
  layer.set_name("convolution");
  layer.mutable_convolution()->set_channels(2);
  layer.mutable_convolution()->set_max_pool(2);
  const auto of_images = ShadowEncoder::Create(options);
  ASSERT_TRUE(of_images.ok()) << of_images.status();
  EXPECT_TRUE((*of_images)->Imitate(sent).ok());
}

TEST_F(ShadowEncoderTest, RefusesWhatDoesNotFit) {
  const auto refused = [](const ShadowEncoder::Options& options) {
    return ShadowEncoder::Create(options).status().code() == absl::StatusCode::kInvalidArgument;
  };
  ShadowEncoder::Options options = options_;
  options.features = nullptr;
  EXPECT_TRUE(refused(options));
  options = options_;
  options.cut_width = 3;
  EXPECT_TRUE(refused(options));
  options = options_;
  options.model = {};
  EXPECT_TRUE(refused(options));
}

TEST_F(ShadowEncoderTest, ActivationsThatAreNotFiniteAreAnError) {
  const auto encoder = ShadowEncoder::Create(options_);
  ASSERT_TRUE(encoder.ok());
  Matrix sent = Embed(theirs_.activations);
  sent.data()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ((*encoder)->Imitate(sent).code(), absl::StatusCode::kInternal);
}

// SIMULATOR as a whole: the first 2000 of theirs train, the last 1000 test.
TEST_F(ShadowEncoderTest, ReadsTheAttributeWithoutAnActivationWhoseValueIsKnown) {
  AttributeAttackModule::Options options;
  options.audit.add_attributes("sex");
  options.audit.add_attacks(v1::SIMULATOR);
  options.config.set_decoder_epochs(100);
  *options.config.mutable_shadow_model() = options_.model;
  options.top_half = DenseModel({16});
  options.cut_width = 2;
  options.features = features_;
  options.known = {{"sex", 2, std::vector<uint8_t>(kSent, kUnknownAttribute), own_.values}};
  options.examples.unmarked.resize(2000);
  options.examples.test.resize(1000);
  std::iota(options.examples.unmarked.begin(), options.examples.unmarked.end(), 0);
  std::iota(options.examples.test.begin(), options.examples.test.end(), 2000);
  const std::vector<uint32_t> training = options.examples.unmarked;
  const auto module = AttributeAttackModule::Create(std::move(options));
  ASSERT_TRUE(module.ok()) << module.status();
  const Matrix sent = Embed(theirs_.activations);
  for (const uint32_t epoch : {0, 1, 2}) {
    ASSERT_TRUE((*module)->TakeTraining(epoch, training, sent.block(0, 2000)).ok());
    ASSERT_TRUE((*module)->TakeTest(epoch, 0, sent.block(2000, 1000)).ok());
    ASSERT_TRUE((*module)->Guess(epoch).ok());
  }
  const auto guesses = (*module)->Guess(2);
  ASSERT_TRUE(guesses.ok()) << guesses.status();
  ASSERT_EQ(guesses->size(), 2);
  const absl::Span<const uint8_t> values = theirs_.values;
  // The floor is 0.7; a decoder of the activations themselves reaches 0.99.
  EXPECT_EQ((*guesses)[0].examples, v1::AttributeGuesses::TEST);
  EXPECT_GT(AccuracyOf((*guesses)[0].scores, values.subspan(2000)), 0.9);
  EXPECT_EQ((*guesses)[1].examples, v1::AttributeGuesses::TRAINING);
  EXPECT_GT(AccuracyOf((*guesses)[1].scores, values.first(2000)), 0.9);
}

}  // namespace
}  // namespace splitveil
