#include "label_party/top/top_model.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
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
using ::testing::ElementsAreArray;
using ::testing::Not;

constexpr int64_t kBatch = 6;
constexpr int64_t kCutWidth = 4;

class TopModelTest : public ::testing::Test {
 protected:
  TopModelTest() {
    options_.features = {/*numeric=*/2, /*categorical=*/2, /*embedding_rows=*/20};
    *options_.spec.add_layers() = MakeLayer("first", 5, v1::TANH);
    *options_.spec.add_layers() = MakeLayer("second", 3, v1::RELU);
    options_.spec.mutable_wide()->mutable_embedding()->set_dimension(1);
    options_.optimizer = MakeAdam(1e-2);
    options_.cut_width = kCutWidth;
    options_.seed = 31;
  }

  std::unique_ptr<TopModel> Create() {
    auto model = TopModel::Create(options_);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
  // Logit of row j by the reference, with `activations` in place of the row's own.
  double Logit(const NamedParameters& parameters, const std::vector<double>& activations, int64_t j) const {
    std::vector<v1::Layer> layers(options_.spec.layers().begin(), options_.spec.layers().end());
    layers.push_back(MakeLayer("logit", 1, v1::LINEAR));
    double logit = ReferenceNetwork(parameters, layers).Apply(activations)[0];
    if (options_.spec.has_wide()) {
      const std::vector<float>& table = FindParameter(parameters, "wide.embedding");
      const std::vector<double> input = {table[own_.categories[j * 2]], table[own_.categories[j * 2 + 1]],
                                         own_.numeric.row(j)[0], own_.numeric.row(j)[1]};
      logit += ReferenceNetwork(parameters, {MakeLayer("wide", 1, v1::LINEAR)}).Apply(input)[0];
    }
    return logit;
  }
  double Loss(const NamedParameters& parameters, const std::vector<double>& activations, int64_t j) const {
    const double logit = Logit(parameters, activations, j);
    return std::log1p(std::exp(labels_[j] == 1 ? -logit : logit));
  }
  void ExpectCreateRefused(const std::string& text) {
    const auto model = TopModel::Create(options_);
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(model.status().message().find(text), absl::string_view::npos) << model.status();
  }
  void ExpectStepRefused(TopModel& model, absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    EXPECT_EQ(model.ForwardBackward(activations_, own_, labels_, {}).status().code(), code);
    EXPECT_EQ(model.Update().code(), absl::StatusCode::kFailedPrecondition);
  }

  TopModelOptions options_;
  std::mt19937 generator_{6};
  Matrix activations_ = RandomMatrix(kBatch, kCutWidth, generator_);
  FeatureBatch own_ = RandomFeatures(kBatch, {2, 2, 20}, generator_);
  std::vector<float> labels_ = {0, 1, 1, 0, 0, 1};
};

TEST_F(TopModelTest, StartsAsTheSpecificationSays) {
  EXPECT_THAT(FindParameter(Create()->Parameters(), "logit.bias"), Not(Each(0.0F)));
  options_.spec.set_initialization(v1::ModelSpec::HE_UNIFORM);
  EXPECT_THAT(FindParameter(Create()->Parameters(), "logit.bias"), Each(0.0F));
}

TEST_F(TopModelTest, LogitsAndLossAgreeWithTheReference) {
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const auto logits = model->Predict(activations_, own_);
  const auto step = model->ForwardBackward(activations_, own_, labels_, {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  ASSERT_TRUE(step.ok()) << step.status();
  double loss = 0;
  for (int64_t j = 0; j < kBatch; ++j) {
    const std::vector<double> row = ToDouble(activations_.row(j));
    EXPECT_NEAR((*logits)[j], Logit(parameters, row, j), 1e-6);
    loss += Loss(parameters, row, j) / kBatch;
  }
  EXPECT_NEAR(step->mean_loss, loss, 1e-6);
}

// The mixture of two normal densities, differentiated numerically.
TEST_F(TopModelTest, NoisyTargetsGiveTheGradientOfTheirLikelihood) {
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const std::vector<float> targets = {-2.5F, 0.25F, 4, 0.5F, 1.5F, -0.75F};
  const auto step = model->ForwardBackward(activations_, own_, labels_, {targets, 1.7});
  ASSERT_TRUE(step.ok()) << step.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    const auto loss = [&](const std::vector<double>& x) {
      const double p = 1 / (1 + std::exp(-Logit(parameters, x, j)));
      const auto density = [&](double label) { return std::exp(-0.5 * std::pow((targets[j] - label) / 1.7, 2)); };
      return -std::log(p * density(1) + (1 - p) * density(0));
    };
    ExpectNear(step->cut_gradient.row(j), ReferenceNetwork::Differentiate(ToDouble(activations_.row(j)), loss), 1e-6);
    EXPECT_LE(std::abs(step->residuals[j]), 1);
  }
}

TEST_F(TopModelTest, CutGradientsAreThoseOfEachExamplesOwnLoss) {
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const auto step = model->ForwardBackward(activations_, own_, labels_, {});
  ASSERT_TRUE(step.ok()) << step.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    ExpectNear(step->cut_gradient.row(j),
               ReferenceNetwork::Differentiate(ToDouble(activations_.row(j)),
                                               [&](const std::vector<double>& x) { return Loss(parameters, x, j); }),
               1e-6);
  }
}

// The log loss is linear in the label, and so are its gradients: a target between or beyond the two labels has the
// gradient that lies there. The loss stays that of the labels.
TEST_F(TopModelTest, GradientsAreOfTheTargetsAndTheLossIsOfTheLabels) {
  auto model = Create();
  const auto of_labels = model->ForwardBackward(activations_, own_, labels_, {});
  const auto of_zeros = model->ForwardBackward(activations_, own_, std::vector<float>(kBatch, 0), {});
  const auto of_ones = model->ForwardBackward(activations_, own_, std::vector<float>(kBatch, 1), {});
  const std::vector<float> targets = {-0.5f, 1.5f, 0.25f, 0, 1, 3};
  const auto step = model->ForwardBackward(activations_, own_, labels_, {targets});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->mean_loss, of_labels->mean_loss);
  for (int64_t j = 0; j < kBatch; ++j) {
    for (int64_t k = 0; k < kCutWidth; ++k) {
      const float zero = of_zeros->cut_gradient.row(j)[k];
      const float one = of_ones->cut_gradient.row(j)[k];
      EXPECT_NEAR(step->cut_gradient.row(j)[k], zero + targets[j] * (one - zero), 1e-6);
    }
  }
}

TEST_F(TopModelTest, TargetsThatDoNotFitAreRefused) {
  auto model = Create();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& targets : {std::vector<float>{1, 0}, std::vector<float>{0, 1, 1, 0, 0, nan}}) {
    EXPECT_EQ(model->ForwardBackward(activations_, own_, labels_, {targets}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(TopModelTest, WorksWithoutHiddenLayersAndWidePart) {
  options_.spec = v1::ModelSpec();
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  const std::vector<float>& weight = FindParameter(parameters, "logit.weight");
  const auto logits = model->Predict(activations_, FeatureBatch());
  const auto step = model->ForwardBackward(activations_, FeatureBatch(), labels_, {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  ASSERT_TRUE(step.ok()) << step.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    const double slope = 1 / (1 + std::exp(-(*logits)[j])) - labels_[j];  // Equation (1) of Li et al., ICLR 2022.
    ExpectNear(step->cut_gradient.row(j), {slope * weight[0], slope * weight[1], slope * weight[2], slope * weight[3]},
               1e-6);
  }
}

TEST_F(TopModelTest, LearnsABatchByHeart) {
  auto model = Create();
  double first_loss = 0;
  double loss = 0;
  for (int i = 0; i < 300; ++i) {
    const auto step = model->ForwardBackward(activations_, own_, labels_, {});
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_TRUE(model->Update().ok());
    loss = step->mean_loss;
    first_loss = i == 0 ? loss : first_loss;
  }
  EXPECT_LT(loss, 0.2 * first_loss);
}

TEST_F(TopModelTest, StaysFiniteForLogitsThatSaturate) {
  auto model = Create();
  NamedParameters parameters = model->Parameters();
  for (auto& [name, values] : parameters) {
    if (name == "logit.bias") {
      values[0] = 1e4f;
    }
  }
  ASSERT_TRUE(model->SetParameters(parameters).ok());
  const auto step = model->ForwardBackward(activations_, own_, labels_, {});
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_NEAR(step->mean_loss, 5e3, 1);  // Half of the labels are wrong by a logit of 1e4.
  EXPECT_THAT(step->cut_gradient.row(1), ElementsAreArray({0.0f, 0.0f, 0.0f, 0.0f}));
}

TEST_F(TopModelTest, ParametersMoveFromOneModelToAnother) {
  auto model = Create();
  options_.seed = 32;
  auto other = Create();
  ASSERT_NE(model->Parameters(), other->Parameters());
  ASSERT_TRUE(other->SetParameters(model->Parameters()).ok());
  EXPECT_EQ(*model->Predict(activations_, own_), *other->Predict(activations_, own_));
}

TEST_F(TopModelTest, RefusesNoCutWidth) {
  options_.cut_width = 0;
  ExpectCreateRefused("cut width: expected at least 1, found 0");
}

TEST_F(TopModelTest, RefusesReservedAndRepeatedNames) {
  for (const char* name : {"cut", "logit", "wide", "first"}) {
    options_.spec.mutable_layers(1)->set_name(name);
    ExpectCreateRefused("model.layers[1].name");
  }
}

TEST_F(TopModelTest, RefusesAWidePartWithoutTheEmbeddingItNeeds) {
  options_.spec.mutable_wide()->clear_embedding();
  ExpectCreateRefused("model.wide.embedding is missing");
}

TEST_F(TopModelTest, RefusesAWidePartWithoutFeatures) {
  options_.features = {};
  ExpectCreateRefused("model.wide: expected at least one feature column");
}

TEST_F(TopModelTest, CheckRefusesFeaturesThatNoLayerReads) {
  EXPECT_TRUE(TopModel::Check(options_).ok());
  options_.spec.clear_wide();
  const absl::Status status = TopModel::Check(options_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("model: expected own_features, wide or a file of further"));
  options_.features = {};
  EXPECT_TRUE(TopModel::Check(options_).ok());
  options_.features.numeric = 1;
  EXPECT_FALSE(TopModel::Check(options_).ok());
  options_.spec.mutable_own_features();
  EXPECT_TRUE(TopModel::Check(options_).ok());
}

TEST_F(TopModelTest, OwnFeaturesAreFurtherInputsOfTheirLayer) {
  options_.spec.clear_wide();
  options_.spec.mutable_own_features()->mutable_embedding()->set_dimension(3);
  options_.spec.mutable_own_features()->set_before("second");
  auto model = Create();
  const NamedParameters parameters = model->Parameters();
  EXPECT_EQ(FindParameter(parameters, "second.weight").size(), 3u * (5 + 2 * 3 + 2));
  const std::vector<float>& table = FindParameter(parameters, "own.embedding");
  const auto logits = model->Predict(activations_, own_);
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    std::vector<double> values =
        ReferenceNetwork(parameters, {MakeLayer("first", 5, v1::TANH)}).Apply(ToDouble(activations_.row(j)));
    for (int c = 0; c < 2; ++c) {
      const auto row = table.begin() + own_.categories[j * 2 + c] * 3;
      values.insert(values.end(), row, row + 3);
    }
    values.insert(values.end(), own_.numeric.row(j).begin(), own_.numeric.row(j).end());
    const ReferenceNetwork rest(parameters, {MakeLayer("second", 3), MakeLayer("logit", 1, v1::LINEAR)});
    EXPECT_NEAR((*logits)[j], rest.Apply(values)[0], 1e-6);
  }
  own_ = RandomFeatures(kBatch - 1, options_.features, generator_);
  ExpectStepRefused(*model);
}

TEST_F(TopModelTest, RefusesOwnFeaturesThatAreNotThere) {
  options_.spec.mutable_own_features()->mutable_embedding()->set_dimension(3);
  options_.spec.mutable_own_features()->set_before("third");
  ExpectCreateRefused("model.own_features.before: expected a layer of the label party's");
  options_.spec.mutable_own_features()->clear_before();
  options_.spec.mutable_own_features()->clear_embedding();
  ExpectCreateRefused("model.own_features.embedding is missing");
  options_.features = {};
  ExpectCreateRefused("model.own_features: expected at least one feature column");
}

TEST_F(TopModelTest, RefusesTheTrainingStateOfAnotherOptimizer) {
  auto model = Create();
  options_.optimizer.mutable_sgd();
  auto other = Create();
  const NamedParameters before = other->Parameters();
  EXPECT_EQ(other->SetTrainingState(model->TrainingState()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->SetTrainingState(other->TrainingState()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(other->Parameters(), before);
}

TEST_F(TopModelTest, RefusesAnOptimizerOutOfRange) {
  options_.optimizer.set_learning_rate(-1);
  ExpectCreateRefused("optimizer.learning_rate");
}

TEST_F(TopModelTest, RefusesActivationsOfAnotherWidth) {
  auto model = Create();
  activations_ = Matrix(kBatch, kCutWidth + 1);
  ExpectStepRefused(*model);
  EXPECT_EQ(model->Predict(activations_, own_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TopModelTest, RefusesAnEmptyBatch) {
  options_.spec.clear_wide();
  auto model = Create();
  activations_ = Matrix(0, kCutWidth);
  labels_.clear();
  ExpectStepRefused(*model);
}

TEST_F(TopModelTest, RefusesOwnFeaturesOfOtherRows) {
  auto model = Create();
  own_ = RandomFeatures(kBatch - 1, options_.features, generator_);
  ExpectStepRefused(*model);
  EXPECT_EQ(model->Predict(activations_, own_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TopModelTest, RefusesLabelsThatDoNotFitAndNeverNamesOne) {
  auto model = Create();
  labels_[2] = 7;
  ExpectStepRefused(*model);
  const auto step = model->ForwardBackward(activations_, own_, labels_, {});
  EXPECT_EQ(step.status().message().find('7'), absl::string_view::npos) << step.status();
  labels_.pop_back();
  labels_[2] = 1;
  ExpectStepRefused(*model);
}

TEST_F(TopModelTest, StopsWhenTheLossIsNotFinite) {
  auto model = Create();
  activations_.row(0)[0] = std::numeric_limits<float>::quiet_NaN();
  ExpectStepRefused(*model, absl::StatusCode::kInternal);
}

TEST_F(TopModelTest, AFailedStepDropsTheGradientsBeforeIt) {
  auto model = Create();
  ASSERT_TRUE(model->ForwardBackward(activations_, own_, labels_, {}).ok());
  labels_.pop_back();
  ExpectStepRefused(*model);
}

TEST_F(TopModelTest, RefusesUpdatesWithoutNewGradients) {
  auto model = Create();
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(model->ForwardBackward(activations_, own_, labels_, {}).ok());
  EXPECT_TRUE(model->Update().ok());
  EXPECT_EQ(model->Update().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TopModelTest, RefusesParametersOfAnotherModel) {
  auto model = Create();
  const NamedParameters before = model->Parameters();
  options_.spec.clear_wide();
  EXPECT_EQ(model->SetParameters(Create()->Parameters()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model->Parameters(), before);
}

// Central differences of each of three outputs, a wide part beside the layers.
TEST_F(TopModelTest, OutputDirectionsAreTheDerivativesOfTheOutputs) {
  options_.task = {Task::Kind::kMultiClass, 3};
  auto model = Create();
  EXPECT_EQ(model->OutputDirections().status().code(), absl::StatusCode::kFailedPrecondition);
  const std::vector<float> classes = {0, 2, 1, 0, 1, 2};
  const NamedParameters before = model->Parameters();
  ASSERT_TRUE(model->ForwardBackward(activations_, own_, classes, {}).ok());
  const absl::StatusOr<Matrix> directions = model->OutputDirections();
  ASSERT_TRUE(directions.ok()) << directions.status();
  ASSERT_EQ(directions->rows(), kBatch);
  ASSERT_EQ(directions->cols(), 3 * kCutWidth);
  constexpr float kStep = 1e-2F;
  for (int64_t i = 0; i < kCutWidth; ++i) {
    Matrix above(activations_), below(activations_);
    for (int64_t j = 0; j < kBatch; ++j) {
      above.row(j)[i] += kStep;
      below.row(j)[i] -= kStep;
    }
    const std::vector<float> outputs_above = *model->Predict(above, own_), outputs_below = *model->Predict(below, own_);
    for (int64_t j = 0; j < kBatch; ++j) {
      for (int64_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(directions->row(j)[k * kCutWidth + i],
                    (outputs_above[j * 3 + k] - outputs_below[j * 3 + k]) / (2 * kStep), 2e-3);
      }
    }
  }
  EXPECT_EQ(model->Parameters(), before);
  EXPECT_TRUE(model->Update().ok());  // Nothing that Update needs has been spent.
  EXPECT_NE(model->Parameters(), before);
}

// What leaves is the sum of the outputs' residuals times their directions.
TEST_F(TopModelTest, CutGradientsOfClassesAreTheirResidualsAlongTheOutputDirections) {
  options_.task = {Task::Kind::kMultiClass, 3};
  auto model = Create();
  const std::vector<float> classes = {0, 2, 1, 0, 1, 2};
  const auto step = model->ForwardBackward(activations_, own_, classes, {});
  ASSERT_TRUE(step.ok()) << step.status();
  const Matrix directions = *model->OutputDirections();
  for (int64_t j = 0; j < kBatch; ++j) {
    for (int64_t i = 0; i < kCutWidth; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 3; ++k) {
        sum += step->residuals[j * 3 + k] * directions.row(j)[k * kCutWidth + i];
      }
      EXPECT_NEAR(step->cut_gradient.row(j)[i], sum, 1e-6);
    }
  }
}

// A run of one step on one batch again and again: the squared error falls.
TEST_F(TopModelTest, LearnsNumbers) {
  options_.task = {Task::Kind::kRegression, 0};
  auto model = Create();
  const std::vector<float> numbers = {0, 0.2F, 0.4F, 0.6F, 0.8F, 1};
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto head = model->ForwardBackward(activations_, own_, numbers, {});
    ASSERT_TRUE(head.ok()) << head.status();
    (step == 0 ? first : last) = head->mean_loss;
    ASSERT_TRUE(model->Update().ok());
  }
  EXPECT_LT(last, first / 10);
}

}  // namespace
}  // namespace splitveil
