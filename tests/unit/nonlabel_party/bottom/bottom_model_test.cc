#include "nonlabel_party/bottom/bottom_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/reference_network.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Not;

constexpr int64_t kBatch = 6;

class BottomModelTest : public ::testing::Test {
 protected:
  BottomModelTest() {
    options_.features = {/*numeric=*/3, /*categorical=*/2, /*embedding_rows=*/20};
    options_.spec.mutable_embedding()->set_dimension(2);
    *options_.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
    *options_.spec.add_layers() = MakeLayer("second", 6, v1::SIGMOID);
    *options_.spec.add_layers() = MakeLayer("third", 4, v1::RELU);
    options_.optimizer = MakeAdam(1e-2);
    options_.cut_width = 4;
    options_.seed = 21;
  }

  std::unique_ptr<BottomModel> Create() {
    auto model = BottomModel::Create(options_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  FeatureBatch MakeBatch() { return RandomFeatures(kBatch, options_.features, generator_); }
  ReferenceNetwork MakeReference(const NamedParameters& parameters) const {
    return {parameters, {options_.spec.layers().begin(), options_.spec.layers().end()}};
  }
  // What enters the first layer for row j.
  std::vector<double> Input(const NamedParameters& parameters, const FeatureBatch& batch, int64_t j) const {
    const std::vector<float>& table = FindParameter(parameters, "embedding");
    std::vector<double> input;
    for (int64_t c = 0; c < 2; ++c) {
      const int64_t row = batch.categories[j * 2 + c];
      input.push_back(table[row * 2]);
      input.push_back(table[row * 2 + 1]);
    }
    const absl::Span<const float> numeric = batch.numeric.row(j);
    input.insert(input.end(), numeric.begin(), numeric.end());
    return input;
  }
  void ExpectCreateRefused(const std::string& text) {
    const auto model = BottomModel::Create(options_);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(model.status().message().find(text), absl::string_view::npos) << model.status();
  }

  BottomModelOptions options_;
  std::mt19937 generator_{4};
  Matrix cut_gradient_ = RandomMatrix(kBatch, 4, generator_);
};

TEST_F(BottomModelTest, StartsAsTheSpecificationSays) {
  EXPECT_THAT(FindParameter(Create()->Parameters(), "third.bias"), Not(Each(0.0F)));
  options_.spec.set_initialization(v1::ModelSpec::HE_UNIFORM);
  EXPECT_THAT(FindParameter(Create()->Parameters(), "third.bias"), Each(0.0F));
}

TEST_F(BottomModelTest, ActivationsAgreeWithTheReference) {
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const ReferenceNetwork reference = MakeReference(parameters);
  const FeatureBatch batch = MakeBatch();
  const auto trained = model->Forward(batch);
  const auto predicted = model->Predict(batch);
  ASSERT_TRUE(trained.ok()) << trained.status();
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    const std::vector<double> expected = reference.Apply(Input(parameters, batch, j));
    ExpectNear(trained->row(j), expected, 1e-6);
    ExpectNear(predicted->row(j), expected, 1e-6);
  }
}

TEST_F(BottomModelTest, LayerGradientsAgreeWithFiniteDifferences) {
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const ReferenceNetwork reference = MakeReference(parameters);
  const FeatureBatch batch = MakeBatch();
  ASSERT_TRUE(model->Forward(batch).ok());
  const auto gradients = model->Backward(cut_gradient_, {"second", "cut", "first"});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_EQ(gradients->size(), 3u);
  for (int64_t j = 0; j < kBatch; ++j) {
    const std::vector<double> first = reference.ApplyOne(Input(parameters, batch, j), 0);
    const std::vector<double> second = reference.ApplyOne(first, 1);
    const auto differentiate = [&](const std::vector<double>& at, size_t next_layer) {
      return ReferenceNetwork::Differentiate(
          at, [&](const std::vector<double>& x) { return Dot(reference.Apply(x, next_layer), cut_gradient_.row(j)); });
    };
    ExpectNear((*gradients)[2].row(j), differentiate(first, 1), 1e-6);
    ExpectNear((*gradients)[0].row(j), differentiate(second, 2), 1e-6);
    EXPECT_THAT((*gradients)[1].row(j), ElementsAreArray(cut_gradient_.row(j)));
  }
}

TEST_F(BottomModelTest, AHintIsTheRowOfTheBatchsGradient) {
  auto model = Create();
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  for (int batch = 0; batch < 2; ++batch) {  // The second one's parameters are no longer the model's.
    const auto gradients = model->Backward(cut_gradient_, {"first"});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const auto hint = model->BackpropagateHint(3, cut_gradient_.row(3), {"cut", "first"});
    ASSERT_TRUE(hint.ok()) << hint.status();
    EXPECT_THAT((*hint)[0], ElementsAreArray(cut_gradient_.row(3)));
    ExpectNear((*hint)[1], ToDouble((*gradients)[0].row(3)), 1e-7);
    ASSERT_TRUE(model->Update().ok());
  }
}

TEST_F(BottomModelTest, BackwardTakesTheOldestForwardWithItsOwnParameters) {
  auto model = Create();
  auto fresh = Create();
  const FeatureBatch first = MakeBatch();
  const FeatureBatch second = MakeBatch();
  ASSERT_TRUE(model->Forward(first).ok());
  ASSERT_TRUE(model->Forward(second).ok());
  for (const FeatureBatch& batch : {first, second}) {
    ASSERT_TRUE(fresh->Forward(batch).ok());
    const auto expected = fresh->Backward(cut_gradient_, {"first"});  // No update: the initial parameters.
    const auto found = model->Backward(cut_gradient_, {"first"});
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT((*found)[0].row(2), ElementsAreArray((*expected)[0].row(2)));
    ASSERT_TRUE(model->Update().ok());
  }
}

TEST_F(BottomModelTest, ADiscardedForwardIsTheOldestAndChangesNothing) {
  auto model = Create();
  auto fresh = Create();
  const FeatureBatch second = MakeBatch();
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  ASSERT_TRUE(model->Forward(second).ok());
  ASSERT_TRUE(model->Discard().ok());
  EXPECT_EQ(model->Parameters(), fresh->Parameters());
  ASSERT_TRUE(fresh->Forward(second).ok());
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  ASSERT_TRUE(fresh->Backward(cut_gradient_, {}).ok());
  ASSERT_TRUE(model->Update().ok());
  ASSERT_TRUE(fresh->Update().ok());
  EXPECT_EQ(model->Parameters(), fresh->Parameters());
}

TEST_F(BottomModelTest, NothingPendingCannotBeDiscarded) {
  auto model = Create();
  EXPECT_EQ(model->Discard().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  ASSERT_TRUE(model->Discard().ok());
  EXPECT_EQ(model->Discard().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BottomModelTest, UpdatesOnlyEmbeddingRowsOfTheBatch) {
  auto model = Create();
  FeatureBatch batch = MakeBatch();
  batch.categories = {0, 10, 1, 10, 0, 11, 1, 11, 0, 10, 0, 10};
  const std::vector<float> before = FindParameter(model->Parameters(), "embedding");
  ASSERT_TRUE(model->Forward(batch).ok());
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  ASSERT_TRUE(model->Update().ok());
  const std::vector<float> after = FindParameter(model->Parameters(), "embedding");
  for (int row = 0; row < 20; ++row) {
    const bool occurs = row == 0 || row == 1 || row == 10 || row == 11;
    EXPECT_EQ(before[row * 2] != after[row * 2], occurs) << "row " << row;
  }
}

TEST_F(BottomModelTest, WorksOnNumbersAlone) {
  options_.features = {/*numeric=*/3, /*categorical=*/0, /*embedding_rows=*/0};
  options_.spec.clear_embedding();
  auto model = Create();
  FeatureBatch batch;
  batch.rows = kBatch;
  batch.numeric = RandomMatrix(kBatch, 3, generator_);
  const std::vector<float> before = FindParameter(model->Parameters(), "first.weight");
  ASSERT_TRUE(model->Forward(batch).ok());
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  ASSERT_TRUE(model->Update().ok());
  EXPECT_NE(FindParameter(model->Parameters(), "first.weight"), before);
}

TEST_F(BottomModelTest, ParametersMoveFromOneModelToAnother) {
  auto model = Create();
  options_.seed = 22;
  auto other = Create();
  const FeatureBatch batch = MakeBatch();
  ASSERT_NE(model->Parameters(), other->Parameters());
  ASSERT_TRUE(other->SetParameters(model->Parameters()).ok());
  EXPECT_EQ(model->Parameters(), other->Parameters());
  EXPECT_THAT(other->Predict(batch)->row(0), ElementsAreArray(model->Predict(batch)->row(0)));
}

// A vocabulary that has grown: the rows there were go on, moments and all; the new ones start afresh.
TEST_F(BottomModelTest, GoesOnFromATableOfFewerRows) {
  auto model = Create();
  FeatureBatch batch = MakeBatch();
  const auto train = [&](BottomModel& trained) {
    ASSERT_TRUE(trained.Forward(batch).ok());
    ASSERT_TRUE(trained.Backward(cut_gradient_, {}).ok());
    ASSERT_TRUE(trained.Update().ok());
  };
  train(*model);
  options_.features.embedding_rows = 25;
  options_.seed = 22;
  auto grown = Create();
  const std::vector<float> fresh = FindParameter(grown->Parameters(), "embedding");
  ASSERT_TRUE(grown->SetTrainingState(model->TrainingState()).ok());
  train(*model);
  train(*grown);
  const std::vector<float> old_rows = FindParameter(model->Parameters(), "embedding");
  const std::vector<float> rows = FindParameter(grown->Parameters(), "embedding");
  EXPECT_THAT(absl::MakeConstSpan(rows).first(40), ElementsAreArray(old_rows));
  EXPECT_THAT(absl::MakeConstSpan(rows).subspan(40), ElementsAreArray(absl::MakeConstSpan(fresh).subspan(40)));
  EXPECT_EQ(FindParameter(model->TrainingState(), "first.weight"),
            FindParameter(grown->TrainingState(), "first.weight"));
}

TEST_F(BottomModelTest, RefusesTheTrainingStateOfALargerTableOrAnotherOptimizer) {
  auto model = Create();
  options_.features.embedding_rows = 19;
  auto smaller = Create();
  options_.optimizer.mutable_adagrad();
  auto other = Create();
  for (BottomModel* unfit : {smaller.get(), other.get()}) {
    const NamedParameters before = unfit->Parameters();
    EXPECT_EQ(unfit->SetTrainingState(model->TrainingState()).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(unfit->Parameters(), before);
  }
}

TEST_F(BottomModelTest, TakesTheHalfOfAWholeModelBelowTheCutLayer) {
  options_.cut_layer = "second";
  options_.cut_width = 6;
  EXPECT_THAT(Create()->layer_names(), ElementsAre("first", "cut"));
  options_.cut_layer = "fourth";
  ExpectCreateRefused("model.layers: expected one named \"fourth\", the agreement's cut_layer");
}

TEST_F(BottomModelTest, RefusesConvolutionsOnWhatIsNoImage) {
  options_.spec.clear_layers();
  options_.spec.clear_embedding();
  v1::Layer& layer = *options_.spec.add_layers();
  layer.set_name("first");
  layer.mutable_convolution()->set_channels(2);
  options_.features = {/*numeric=*/13, 0, 0};
  options_.cut_width = 24;
  ExpectCreateRefused("model.layers[0].convolution: expected images as its input, found none");
  options_.features.image = {1, 3, 4};
  ExpectCreateRefused("expected only the numbers of the 1 x 3 x 4 image as its input, found 13 numbers");
  options_.features.numeric = 12;
  v1::ImageInput& told = *options_.spec.mutable_input_image();
  told.set_channels(1);
  told.set_height(4);
  told.set_width(3);
  ExpectCreateRefused("model.input_image: expected 1 x 3 x 4, the images of the data, found 1 x 4 x 3");
  options_.spec.clear_input_image();
  options_.cut_width = 25;
  ExpectCreateRefused("model.layers[0] output: expected 25, the agreed cut width, found 24");
}

TEST_F(BottomModelTest, CallsTheLastLayerCut) {
  EXPECT_THAT(Create()->layer_names(), ElementsAre("first", "second", "cut"));
  options_.spec.mutable_layers(2)->set_name("cut");
  EXPECT_THAT(Create()->layer_names(), ElementsAre("first", "second", "cut"));
}

TEST_F(BottomModelTest, RefusesTheNameCutBelowTheCut) {
  options_.spec.mutable_layers(0)->set_name("cut");
  ExpectCreateRefused("model.layers[0].name: \"cut\" is reserved");
}

TEST_F(BottomModelTest, RefusesRepeatedNames) {
  options_.spec.mutable_layers(1)->set_name("first");
  ExpectCreateRefused("model.layers[1].name");
}

TEST_F(BottomModelTest, RefusesAnotherCutWidth) {
  options_.cut_width = 5;
  ExpectCreateRefused("model.layers[2].units: expected 5, the agreed cut width, found 4");
}

TEST_F(BottomModelTest, RefusesCategoriesWithoutAnEmbedding) {
  options_.spec.clear_embedding();
  ExpectCreateRefused("model.embedding is missing");
}

TEST_F(BottomModelTest, RefusesAnUnsetOptimizer) {
  options_.optimizer.clear_adam();
  ExpectCreateRefused("optimizer.method");
}

TEST_F(BottomModelTest, RefusesBatchesOfAnotherShapeAndKeepsNothing) {
  auto model = Create();
  FeatureBatch batch = MakeBatch();
  batch.numeric = Matrix(kBatch, 2);
  EXPECT_EQ(model->Forward(batch).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Predict(batch).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BottomModelTest, PredictLeavesNothingToBackpropagate) {
  auto model = Create();
  ASSERT_TRUE(model->Predict(MakeBatch()).ok());
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BottomModelTest, ARefusedBackwardKeepsTheForward) {
  auto model = Create();
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  EXPECT_EQ(model->Backward(Matrix(kBatch, 5), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Backward(Matrix(kBatch + 1, 4), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Backward(cut_gradient_, {"fourth"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Backward(cut_gradient_, {"third"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(model->Backward(cut_gradient_, {}).ok());
  EXPECT_EQ(model->Backward(cut_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BottomModelTest, RefusesUpdatesAndHintsOutOfTurn) {
  auto model = Create();
  const std::vector<float> gradient(4);
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->BackpropagateHint(0, gradient, {}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  ASSERT_TRUE(model->Update().ok());
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(model->BackpropagateHint(0, gradient, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BottomModelTest, RefusesHintsThatDoNotFitTheBatch) {
  auto model = Create();
  const std::vector<float> gradient(4);
  ASSERT_TRUE(model->Forward(MakeBatch()).ok());
  ASSERT_TRUE(model->Backward(cut_gradient_, {}).ok());
  const auto code = [&](int64_t row, size_t width, const std::string& layer) {
    return model->BackpropagateHint(row, {gradient.data(), width}, {layer}).status().code();
  };
  EXPECT_EQ(code(kBatch, 4, "first"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(-1, 4, "cut"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0, 3, "cut"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0, 4, "fourth"), absl::StatusCode::kInvalidArgument);
}

TEST_F(BottomModelTest, RefusesParametersOfAnotherModel) {
  auto model = Create();
  const NamedParameters before = model->Parameters();
  options_.spec.mutable_layers(0)->set_units(7);
  EXPECT_EQ(model->SetParameters(Create()->Parameters()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Parameters(), before);
}

}  // namespace
}  // namespace splitveil
