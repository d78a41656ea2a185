// The two halves, taking turns, against the same model in one piece, written with torch::nn, torch::optim and autograd.
#include <algorithm>
#include <cmath>
#include <deque>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "label_party/top/top_model.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/testing/centralized_baseline_model.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

using testing::CentralizedBaselineModel;

constexpr FeatureShape kTableFeatures = {/*numeric=*/3, /*categorical=*/5, /*embedding_rows=*/200};
constexpr FeatureShape kImageFeatures = {/*numeric=*/2 * 9 * 8, 0, 0, {/*channels=*/2, /*height=*/9, /*width=*/8}};
constexpr FeatureShape kOwnFeatures = {/*numeric=*/2, /*categorical=*/4, /*embedding_rows=*/120};

constexpr char kWideAndDeep[] = R"(
  embedding { dimension: 4 } wide { embedding { dimension: 1 } }
  layers { name: "first" units: 16 } layers { name: "second" units: 16 } layers { name: "third" units: 16 }
  layers { name: "fourth" units: 16 } layers { name: "fifth" units: 16 } layers { name: "sixth" units: 16 }
)";
constexpr char kConvolutional[] = R"(
  layers { name: "first" convolution { channels: 4 max_pool: 2 } }
  layers { name: "second" convolution { channels: 3 kernel: 1 } activation: TANH }
  layers { name: "third" convolution { channels: 5 kernel: 5 max_pool: 2 } }
  layers { name: "fourth" units: 8 }
)";

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Labels that depend on the features of both parties, so that the loss falls.
std::vector<float> MakeLabels(const FeatureBatch& features, const FeatureBatch& own) {
  std::vector<float> labels;
  for (int64_t j = 0; j < features.rows; ++j) {
    labels.push_back(features.numeric.row(j)[0] + own.numeric.row(j)[1] > 0.4f);
  }
  return labels;
}

FeatureBatch SliceOf(const FeatureBatch& batch, const FeatureShape& shape, int64_t first, int64_t rows) {
  FeatureBatch slice;
  slice.rows = rows;
  slice.numeric = Matrix(rows, shape.numeric);
  std::copy_n(batch.numeric.data() + first * shape.numeric, slice.numeric.size(), slice.numeric.data());
  const auto categories = batch.categories.begin() + first * shape.categorical;
  slice.categories.assign(categories, categories + rows * shape.categorical);
  return slice;
}

class SplitModelTest : public ::testing::Test {
 protected:
  void Create(const std::string& model, const std::string& cut_layer, int64_t cut_width, const FeatureShape& features,
              const v1::Optimizer& optimizer) {
    whole_.whole = bottom_.spec = top_.spec = Parsed<v1::ModelSpec>(model);
    whole_.cut_layer = bottom_.cut_layer = top_.cut_layer = cut_layer;
    whole_.bottom_optimizer = whole_.top_optimizer = bottom_.optimizer = top_.optimizer = optimizer;
    whole_.image = features.image;
    if (features.image.channels > 0) {
      v1::ImageInput& image = *top_.spec.mutable_input_image();  // Not square: the label party must be told.
      image.set_channels(static_cast<int>(features.image.channels));
      image.set_height(static_cast<int>(features.image.height));
      image.set_width(static_cast<int>(features.image.width));
    }
    bottom_.features = features;
    top_.features = kOwnFeatures;
    bottom_.cut_width = top_.cut_width = cut_width;
    bottom_.seed = 1;
    top_.seed = 2;
  }

  // Trains both ways for `steps` of 64 examples; every tenth has `last_rows`. The halves get a batch in slices of at
  // most `slice_rows`, all of them sent ahead.
  void ExpectSameTraining(int steps, int64_t last_rows, double tolerance = 1e-6, int64_t slice_rows = 64) {
    auto bottom = BottomModel::Create(bottom_);
    auto top = TopModel::Create(top_);
    ASSERT_TRUE(bottom.ok()) << bottom.status();
    ASSERT_TRUE(top.ok()) << top.status();
    const NamedParameters initial_bottom = (*bottom)->Parameters();
    const NamedParameters initial_top = (*top)->Parameters();
    CentralizedBaselineModel reference(whole_, initial_bottom, initial_top);
    std::mt19937 generator(5);
    double loss_difference = 0;
    for (int step = 0; step < steps; ++step) {
      const int64_t rows = step % 10 == 9 ? last_rows : 64;
      const FeatureBatch features = RandomFeatures(rows, bottom_.features, generator);
      const FeatureBatch own = RandomFeatures(rows, kOwnFeatures, generator);
      const std::vector<float> labels = MakeLabels(features, own);
      double loss_sum = 0;
      std::vector<ConstMatrixView> activations;
      std::vector<FeatureBatch> own_slices;
      for (int64_t first = 0; first < rows; first += slice_rows) {
        const int64_t count = std::min(slice_rows, rows - first);
        auto forward = (*bottom)->Forward(SliceOf(features, bottom_.features, first, count));
        ASSERT_TRUE(forward.ok()) << forward.status();
        activations.push_back(*std::move(forward));
        own_slices.push_back(SliceOf(own, kOwnFeatures, first, count));
      }
      std::vector<ConstMatrixView> gradients;
      for (size_t i = 0; i < activations.size(); ++i) {
        const auto head =
            (*top)->ForwardBackward(activations[i], own_slices[i],
                                    absl::MakeConstSpan(labels).subspan(i * slice_rows, activations[i].rows()), {});
        ASSERT_TRUE(head.ok()) << head.status();
        loss_sum += head->mean_loss * static_cast<double>(activations[i].rows());
        gradients.push_back(head->cut_gradient);
      }
      for (const ConstMatrixView gradient : gradients) {
        ASSERT_TRUE((*bottom)->Backward(gradient, {}).ok());
      }
      ASSERT_TRUE((*top)->Update().ok());
      ASSERT_TRUE((*bottom)->Update().ok());
      const double expected = reference.Step(features, own, {labels.begin(), labels.end()});
      loss_difference = std::max(loss_difference, std::abs(loss_sum / static_cast<double>(rows) - expected));
    }
    RecordProperty("largest_loss_difference", std::to_string(loss_difference * 1e9) + "e-9");
    const double distance =
        std::max(reference.Distance((*bottom)->Parameters()), reference.Distance((*top)->Parameters()));
    RecordProperty("largest_weight_difference", std::to_string(distance * 1e9) + "e-9");
    EXPECT_LE(distance, tolerance);
    EXPECT_LE(loss_difference, tolerance);
    EXPECT_GT(reference.Distance(initial_bottom), 1000 * tolerance);  // They did not stand still.
    EXPECT_GT(reference.Distance(initial_top), 1000 * tolerance);
  }

  CentralizedBaselineModel::Options whole_;
  BottomModelOptions bottom_;
  TopModelOptions top_;
};

// Batches of a power of two: both ways then round alike, and Adam, which makes a step of the full learning rate from a
// gradient however small, has no difference to amplify.
TEST_F(SplitModelTest, TrainsAsTheModelInOnePiece) {
  Create(kWideAndDeep, "third", 16, kTableFeatures, MakeAdam(1e-3));
  ExpectSameTraining(100, 64);
}

// Adam hides a wrong scale of the gradient; a penalty and a large epsilon show it, also for a partial batch.
TEST_F(SplitModelTest, TrainsAsTheModelInOnePieceWhereTheScaleOfTheGradientCounts) {
  Create(kWideAndDeep, "third", 16, kTableFeatures,
         Parsed<v1::Optimizer>("learning_rate: 1e-2 l2: 1e-3 adam { beta1: 0.8 beta2: 0.99 epsilon: 1e-3 }"));
  ExpectSameTraining(100, 37);
}

TEST_F(SplitModelTest, SlicesTrainAsTheirBatch) {
  const std::string own_features = "own_features { embedding { dimension: 3 } before: 'fifth' }";
  Create(kWideAndDeep + own_features, "third", 16, kTableFeatures,
         Parsed<v1::Optimizer>("learning_rate: 1e-2 l2: 1e-3 adam { epsilon: 1e-3 }"));
  ExpectSameTraining(100, 37, 1e-6, 24);
  Create(kConvolutional, "second", 48, kImageFeatures, Parsed<v1::Optimizer>("learning_rate: 0.1 sgd {}"));
  ExpectSameTraining(30, 5, 1e-6, 24);
}

TEST_F(SplitModelTest, TheCutMayBeAnywhere) {
  for (const char* cut : {"first", "fifth"}) {
    Create(kWideAndDeep, cut, 16, kTableFeatures, Parsed<v1::Optimizer>("learning_rate: 0.1 sgd {}"));
    ExpectSameTraining(30, 64);
  }
}

// Gradients at the embeddings are then the cut's own; slices, a scale that counts, and own features.
TEST_F(SplitModelTest, TheCutMayLieDirectlyBehindTheEmbeddings) {
  const std::string own_features = "own_features { embedding { dimension: 3 } }";
  for (const std::string& model : {std::string(kWideAndDeep), kWideAndDeep + own_features}) {
    Create(model, "embedding", 5 * 4 + 3, kTableFeatures,
           Parsed<v1::Optimizer>("learning_rate: 1e-2 l2: 1e-3 adam { epsilon: 1e-3 }"));
    ExpectSameTraining(60, 37, 1e-6, 24);
  }
}

struct ConvolutionalCut {
  const char* layer;
  int64_t width;
};

class ConvolutionalCutTest : public SplitModelTest, public ::testing::WithParamInterface<ConvolutionalCut> {};

INSTANTIATE_TEST_SUITE_P(Layers, ConvolutionalCutTest,
                         ::testing::Values(ConvolutionalCut{"first", 4 * 4 * 4}, ConvolutionalCut{"second", 3 * 4 * 4},
                                           ConvolutionalCut{"third", 5 * 2 * 2}));

TEST_P(ConvolutionalCutTest, TrainsAsTheModelInOnePiece) {
  Create(kConvolutional, GetParam().layer, GetParam().width, kImageFeatures,
         Parsed<v1::Optimizer>("learning_rate: 0.1 sgd { momentum: 0.5 }"));
  ExpectSameTraining(40, 37);
}

class OwnFeaturesTest : public SplitModelTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Layers, OwnFeaturesTest, ::testing::Values("", "before: 'fourth'", "before: 'logit'"));

TEST_P(OwnFeaturesTest, BesideTheWidePartTrainAsTheModelInOnePiece) {
  Create(std::string(kWideAndDeep) + "own_features { embedding { dimension: 3 } " + GetParam() + " }", "second", 16,
         kTableFeatures, Parsed<v1::Optimizer>("learning_rate: 1e-2 adam { epsilon: 1e-3 }"));
  ExpectSameTraining(30, 37);
}

TEST_P(OwnFeaturesTest, AloneBehindAConvolutionTrainAsTheModelInOnePiece) {
  Create(std::string(kConvolutional) + "own_features { embedding { dimension: 3 } " + GetParam() + " }", "third", 20,
         kImageFeatures, Parsed<v1::Optimizer>("learning_rate: 0.1 sgd {}"));
  ExpectSameTraining(30, 64);
}

// Every optimiser with schedules, clipping, penalty. The clipping of both parts of the top model goes by their joint
// norm, and so does the reference's.
class OptimizerTest : public SplitModelTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Methods, OptimizerTest,
    ::testing::Values("learning_rate: 1e-2 adam { epsilon: 1e-4 } clip_norm: 0.05 schedule { warmup_steps: 10 }",
                      "learning_rate: 1e-2 l2: 0.01 adam { epsilon: 1e-4 } schedule { decay { steps: 7 factor: 0.8 } }",
                      "learning_rate: 1e-2 adamw { epsilon: 1e-4 weight_decay: 0.5 } clip_norm: 0.1 "
                      "schedule { warmup_steps: 5 cosine { steps: 40 floor: 0.1 } }",
                      "learning_rate: 0.2 l2: 0.01 sgd {} clip_norm: 0.1",
                      "learning_rate: 0.1 sgd { momentum: 0.9 } clip_norm: 0.1 schedule { cosine { steps: 60 } }",
                      "learning_rate: 0.1 l2: 0.01 sgd { momentum: 0.7 nesterov: true } schedule { warmup_steps: 20 }",
                      "learning_rate: 0.1 l2: 0.01 adagrad { initial_accumulator: 0.1 } clip_norm: 0.1 "
                      "schedule { decay { steps: 20 } }",
                      "learning_rate: 0.05 adagrad { epsilon: 1e-5 }"));

TEST_P(OptimizerTest, IsThatOfTorchOptimOverFiftySteps) {
  Create(kWideAndDeep, "third", 16, kTableFeatures, Parsed<v1::Optimizer>(GetParam()));
  // torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm that it divides by.
  ExpectSameTraining(50, 37, whole_.bottom_optimizer.clip_norm() > 0 ? 1e-5 : 2e-6);
}

// Continuing from a state in a fresh model is continuing: moments, step counts and all.
TEST_P(OptimizerTest, GoesOnFromItsStateAsIfNothingHadHappened) {
  Create(std::string(kWideAndDeep) + "own_features { embedding { dimension: 2 } }", "third", 16, kTableFeatures,
         Parsed<v1::Optimizer>(GetParam()));
  auto bottom = *BottomModel::Create(bottom_);
  auto top = *TopModel::Create(top_);
  std::mt19937 generator(8);
  const auto train = [&](BottomModel& f, TopModel& h, const FeatureBatch& features, const FeatureBatch& own) {
    const auto head = h.ForwardBackward(*f.Forward(features), own, MakeLabels(features, own), {});
    ASSERT_TRUE(f.Backward(head->cut_gradient, {}).ok());
    ASSERT_TRUE(h.Update().ok());
    ASSERT_TRUE(f.Update().ok());
  };
  for (int step = 0; step < 5; ++step) {
    train(*bottom, *top, RandomFeatures(16, kTableFeatures, generator), RandomFeatures(16, kOwnFeatures, generator));
  }
  bottom_.seed = top_.seed = 99;
  auto fresh_bottom = *BottomModel::Create(bottom_);
  auto fresh_top = *TopModel::Create(top_);
  ASSERT_NE(fresh_bottom->Parameters(), bottom->Parameters());
  ASSERT_TRUE(fresh_bottom->SetTrainingState(bottom->TrainingState()).ok());
  ASSERT_TRUE(fresh_top->SetTrainingState(top->TrainingState()).ok());
  for (int step = 0; step < 3; ++step) {
    const FeatureBatch features = RandomFeatures(16, kTableFeatures, generator);
    const FeatureBatch own = RandomFeatures(16, kOwnFeatures, generator);
    train(*bottom, *top, features, own);
    train(*fresh_bottom, *fresh_top, features, own);
  }
  EXPECT_EQ(fresh_bottom->TrainingState(), bottom->TrainingState());
  EXPECT_EQ(fresh_top->TrainingState(), top->TrainingState());
}

// Three batches in flight: each gradient is that of the parameters its activations were computed with.
TEST_F(SplitModelTest, ConvolutionsKeepTheParametersOfEachBatchInFlight) {
  Create(kConvolutional, "third", 20, kImageFeatures, Parsed<v1::Optimizer>("learning_rate: 0.5 sgd {}"));
  auto model = *BottomModel::Create(bottom_);
  std::mt19937 generator(3);
  std::deque<std::pair<FeatureBatch, NamedParameters>> pending;
  for (int step = 0; step < 6; ++step) {
    pending.emplace_back(RandomFeatures(4, kImageFeatures, generator), model->Parameters());
    ASSERT_TRUE(model->Forward(pending.back().first).ok());
    if (pending.size() < 3) {
      continue;
    }
    auto stale = *BottomModel::Create(bottom_);
    ASSERT_TRUE(stale->SetParameters(pending.front().second).ok());
    ASSERT_TRUE(stale->Forward(pending.front().first).ok());
    const Matrix gradient = RandomMatrix(4, 20, generator);
    const auto found = model->Backward(gradient, {"first"});
    const auto expected = stale->Backward(gradient, {"first"});
    ASSERT_TRUE(found.ok()) << found.status();
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ((*found)[0].row(j), (*expected)[0].row(j));
    }
    ASSERT_TRUE(model->Update().ok());
    pending.pop_front();
  }
}

}  // namespace
}  // namespace splitveil
