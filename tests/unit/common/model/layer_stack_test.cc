#include "common/model/layer_stack.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/reference_network.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

class LayerStackTest : public ::testing::Test {
 protected:
  LayerStackTest() {
    options_.chain.field = "model";
    options_.chain.input_width = 5;
    options_.chain.layers = {MakeLayer("first", 6, v1::TANH), MakeLayer("second", 4, v1::RELU),
                             MakeLayer("third", 4, v1::SIGMOID), MakeLayer("fourth", 3, v1::LINEAR)};
    options_.seed = 11;
    options_.input_gradient = true;
  }

  std::unique_ptr<LayerStack> Create() {
    auto stack = LayerStack::Create(options_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return *std::move(stack);
  }
  LayerPass Forward(const LayerStack& stack, ConstMatrixView input) {
    auto pass = stack.Forward(input);
    EXPECT_TRUE(pass.ok()) << pass.status();
    return *std::move(pass);
  }
  static absl::Status Update(LayerStack& stack) { return LayerStack::Update({&stack}); }
  void ExpectCreateRefused(const std::string& text) {
    const auto stack = LayerStack::Create(options_);
    EXPECT_EQ(stack.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(stack.status().message().find(text), absl::string_view::npos) << stack.status();
  }

  LayerStack::Options options_;
  std::mt19937 generator_{3};
  Matrix input_ = RandomMatrix(7, 5, generator_);
  Matrix output_gradient_ = RandomMatrix(7, 3, generator_);
};

TEST_F(LayerStackTest, StartsUniformWithinOneOverTheRootOfTheInputs) {
  options_.chain.input_width = 400;
  options_.chain.layers = {MakeLayer("only", 50)};
  auto stack = Create();
  for (const ParameterView& parameter : stack->parameters("")) {
    const auto [least, most] = std::minmax_element(parameter.values.row(0).begin(), parameter.values.row(0).end());
    EXPECT_GE(*least, -0.05f);
    EXPECT_LE(*most, 0.05f);
    EXPECT_LT(*least, -0.04f);  // Of 50 biases the chance to miss is 0.9^50 = 0.5%; the seed is fixed.
    EXPECT_GT(*most, 0.04f);
  }
}

// He et al., ICCV 2015, equation 10: each ReLU layer of such weights leaves the mean square of its inputs as it was.
TEST_F(LayerStackTest, UnderHeInitializationReluLayersKeepTheMeanSquare) {
  constexpr int kLayers = 10;
  constexpr int kUnits = 512;
  options_.chain.input_width = kUnits;
  options_.chain.layers.clear();
  for (int l = 0; l < kLayers; ++l) {
    options_.chain.layers.push_back(MakeLayer("layer" + std::to_string(l), kUnits, v1::RELU));
  }
  options_.chain.initialization = v1::ModelSpec::HE_UNIFORM;
  auto stack = Create();
  const Matrix input = RandomMatrix(20, kUnits, generator_);
  const auto output = stack->Predict(input);
  ASSERT_TRUE(output.ok()) << output.status();
  const auto mean_square = [](const Matrix& matrix) {
    double sum = 0;
    for (int64_t i = 0; i < matrix.size(); ++i) {
      sum += static_cast<double>(matrix.data()[i]) * matrix.data()[i];
    }
    return sum / static_cast<double>(matrix.size());
  };
  // The square of a ReLU of a Gaussian has five times its mean squared as variance: over 512 units and ten layers the
  // logarithm of the ratio has a standard deviation of about sqrt(10 * 5 / 512) = 0.31. By default 6^-10 would be left.
  EXPECT_NEAR(std::log(mean_square(*output) / mean_square(input)), 0, 4 * 0.31);
}

TEST_F(LayerStackTest, HeInitializationKeepsToItsBoundsAndStartsWithoutBias) {
  options_.chain.input_width = 400;
  options_.chain.layers = {MakeLayer("relu", 600, v1::RELU), MakeLayer("linear", 50, v1::LINEAR)};
  options_.chain.initialization = v1::ModelSpec::HE_UNIFORM;
  const NamedParameters parameters = CopyParameters(Create()->parameters(""));
  for (const char* layer : {"relu", "linear"}) {
    EXPECT_THAT(FindParameter(parameters, std::string(layer) + ".bias"), Each(0.0F));
  }
  for (const auto& [name, bound] : {std::pair<const char*, float>("relu.weight", std::sqrt(6.0F / 400)),
                                    std::pair<const char*, float>("linear.weight", std::sqrt(3.0F / 600))}) {
    const std::vector<float>& weights = FindParameter(parameters, name);  // 30,000 at least.
    const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
    EXPECT_GE(*least, -bound * 1.0001F) << name;
    EXPECT_LE(*most, bound * 1.0001F) << name;
    EXPECT_LT(*least, -bound * 0.999F) << name;
    EXPECT_GT(*most, bound * 0.999F) << name;
  }
}

TEST_F(LayerStackTest, TheSeedAloneDecidesTheParameters) {
  const NamedParameters first = CopyParameters(Create()->parameters(""));
  const NamedParameters again = CopyParameters(Create()->parameters(""));  // Others were created in between.
  options_.seed = 12;
  const NamedParameters other = CopyParameters(Create()->parameters(""));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST_F(LayerStackTest, ForwardAndPredictAgreeWithTheReference) {
  auto stack = Create();
  const ReferenceNetwork reference(CopyParameters(stack->parameters("")), options_.chain.layers);
  const LayerPass pass = Forward(*stack, input_);
  const auto predicted = stack->Predict(input_);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  for (int64_t j = 0; j < 7; ++j) {
    const std::vector<double> expected = reference.Apply(ToDouble(input_.row(j)));
    ExpectNear(pass.output().row(j), expected, 1e-6);
    ExpectNear(predicted->row(j), expected, 1e-6);
  }
}

TEST_F(LayerStackTest, GradientsAgreeWithFiniteDifferences) {
  auto stack = Create();
  const ReferenceNetwork reference(CopyParameters(stack->parameters("")), options_.chain.layers);
  LayerPass pass = Forward(*stack, input_);
  const auto gradients = stack->Backward(pass, output_gradient_, {0, 2, 1, 3, 0});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_EQ(gradients->outputs.size(), 5u);
  for (int64_t j = 0; j < 7; ++j) {
    std::vector<double> values = ToDouble(input_.row(j));
    const auto expect_gradient = [&](ConstMatrixView found, size_t next_layer) {
      ExpectNear(found.row(j),
                 ReferenceNetwork::Differentiate(values,
                                                 [&](const std::vector<double>& x) {
                                                   return Dot(reference.Apply(x, next_layer), output_gradient_.row(j));
                                                 }),
                 1e-6);
    };
    expect_gradient(gradients->input, 0);
    values = reference.ApplyOne(values, 0);
    expect_gradient(gradients->outputs[0], 1);
    expect_gradient(gradients->outputs[4], 1);
    values = reference.ApplyOne(values, 1);
    expect_gradient(gradients->outputs[2], 2);
    values = reference.ApplyOne(values, 2);
    expect_gradient(gradients->outputs[1], 3);
  }
  EXPECT_THAT(std::vector<float>(gradients->outputs[3].data(), gradients->outputs[3].data() + 21),
              ElementsAreArray(output_gradient_.data(), 21));
}

TEST_F(LayerStackTest, GradientsThatWaitForUpdateTrainTheSameParameters) {
  auto at_once = Create();
  options_.gradients_in_update = true;
  auto waiting = Create();
  for (int step = 0; step < 3; ++step) {
    LayerPass pass = Forward(*at_once, input_), later = Forward(*waiting, input_);
    const auto gradients = at_once->Backward(pass, output_gradient_, {1, 0});
    const auto sooner = waiting->Backward(later, output_gradient_, {1, 0});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    ASSERT_TRUE(sooner.ok()) << sooner.status();
    EXPECT_THAT(sooner->input.values(), ElementsAreArray(gradients->input.values()));
    EXPECT_THAT(sooner->outputs[0].values(), ElementsAreArray(gradients->outputs[0].values()));
    EXPECT_THAT(sooner->outputs[1].values(), ElementsAreArray(gradients->outputs[1].values()));
    later = LayerPass();  // Update needs what the pass was computed from, not the pass.
    ASSERT_TRUE(Update(*at_once).ok());
    ASSERT_TRUE(Update(*waiting).ok());
    EXPECT_EQ(CopyParameters(at_once->parameters("")), CopyParameters(waiting->parameters("")));
  }
}

TEST_F(LayerStackTest, SlicesOfABatchTrainAsTheBatch) {
  for (const bool in_update : {false, true}) {
    options_.gradients_in_update = in_update;
    options_.optimizer.clip_norm = 0.01;  // The norm is that of all slices together.
    auto whole = Create(), sliced = Create();
    const ConstMatrixView input = input_, gradient = output_gradient_;
    LayerPass pass = Forward(*whole, input), first = Forward(*sliced, input.block(0, 4)),
              second = Forward(*sliced, input.block(4, 3));
    ASSERT_TRUE(whole->Backward(pass, gradient, {}).ok());
    ASSERT_TRUE(sliced->Backward(first, gradient.block(0, 4), {}).ok());
    ASSERT_TRUE(sliced->Backward(second, gradient.block(4, 3), {}).ok());
    const NamedParameters before = CopyParameters(whole->parameters(""));
    ASSERT_TRUE(Update(*whole).ok());
    ASSERT_TRUE(Update(*sliced).ok());
    const NamedParameters expected = CopyParameters(whole->parameters("")),
                          found = CopyParameters(sliced->parameters(""));
    EXPECT_NE(expected, before);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_THAT(found[i].second, ::testing::Pointwise(::testing::FloatNear(1e-6f), expected[i].second));
    }
    EXPECT_EQ(Update(*sliced).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_F(LayerStackTest, WhatIsForgottenDoesNotTrain) {
  auto once = Create(), twice = Create();
  LayerPass pass = Forward(*once, input_), first = Forward(*twice, input_), second = Forward(*twice, input_);
  const Matrix other = RandomMatrix(7, 3, generator_);
  ASSERT_TRUE(twice->Backward(first, other, {}).ok());
  twice->Forget();
  EXPECT_EQ(Update(*twice).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(twice->Backward(second, output_gradient_, {}).ok());
  ASSERT_TRUE(once->Backward(pass, output_gradient_, {}).ok());
  ASSERT_TRUE(Update(*once).ok());
  ASSERT_TRUE(Update(*twice).ok());
  EXPECT_EQ(CopyParameters(once->parameters("")), CopyParameters(twice->parameters("")));
}

TEST_F(LayerStackTest, OneRowGivesItsRowOfTheBatchBeforeAndAfterBackward) {
  auto stack = Create();
  LayerPass pass = Forward(*stack, input_);
  const auto before = stack->BackwardRow(pass, 4, output_gradient_.row(4), {1, 0});
  const auto gradients = stack->Backward(pass, output_gradient_, {1, 0});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_TRUE(Update(*stack).ok());  // The pass keeps the parameters it was made with.
  const auto after = stack->BackwardRow(pass, 4, output_gradient_.row(4), {1, 0});
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(*before, *after);
  for (int i = 0; i < 2; ++i) {
    ExpectNear((*before)[i], ToDouble(gradients->outputs[i].row(4)), 1e-7);
  }
}

TEST_F(LayerStackTest, APassIsNotDisturbedByUpdatesInBetween) {
  auto stack = Create();
  auto untouched = Create();
  LayerPass first = Forward(*stack, input_);
  LayerPass second = Forward(*stack, input_);
  ASSERT_TRUE(stack->Backward(first, output_gradient_, {}).ok());
  ASSERT_TRUE(Update(*stack).ok());
  const auto late = stack->Backward(second, output_gradient_, {});
  LayerPass alone = Forward(*untouched, input_);
  const auto expected = untouched->Backward(alone, output_gradient_, {});
  ASSERT_TRUE(late.ok()) << late.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_THAT(late->input.row(2), ElementsAreArray(expected->input.row(2)));
}

TEST_F(LayerStackTest, LeavesTheInputGradientOutUnlessAsked) {
  options_.input_gradient = false;
  auto stack = Create();
  LayerPass pass = Forward(*stack, input_);
  const auto gradients = stack->Backward(pass, output_gradient_, {});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(gradients->input.size(), 0);
}

TEST_F(LayerStackTest, WhatIsAskedForDoesNotChangeWhatIsLearnt) {
  options_.chain.layers = {MakeLayer("only", 3, v1::TANH)};  // Narrower than its input.
  options_.chain.side_width = 2;
  const Matrix side = RandomMatrix(7, 2, generator_);
  std::vector<NamedParameters> learnt;
  for (const bool asked : {true, false}) {
    options_.input_gradient = options_.side_gradient = asked;
    auto stack = Create();
    auto pass = stack->Forward(input_, side);
    ASSERT_TRUE(pass.ok()) << pass.status();
    const auto gradients = stack->Backward(*pass, output_gradient_, {});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_EQ(gradients->input.size(), asked ? 7 * 5 : 0);
    EXPECT_EQ(gradients->side.size(), asked ? 7 * 2 : 0);
    ASSERT_TRUE(Update(*stack).ok());
    learnt.push_back(CopyParameters(stack->parameters("")));
  }
  EXPECT_EQ(learnt[0], learnt[1]);
}

TEST_F(LayerStackTest, PredictsWithTheAverageAndTrainsWithoutIt) {
  auto plain = Create();
  options_.optimizer.average_decay = 0.6;
  auto stack = Create();
  std::vector<double> average;
  for (const auto& [name, values] : CopyParameters(stack->parameters(""))) {
    average.insert(average.end(), values.begin(), values.end());
  }
  for (int step = 0; step < 12; ++step) {
    for (LayerStack* trained : {plain.get(), stack.get()}) {
      LayerPass pass = Forward(*trained, input_);
      ASSERT_TRUE(trained->Backward(pass, output_gradient_, {}).ok());
      ASSERT_TRUE(Update(*trained).ok());
    }
    const double keep = std::min(0.6, (1.0 + step) / (10 + step));
    auto next = average.begin();
    for (const auto& [name, values] : CopyParameters(stack->parameters(""))) {
      for (const float value : values) {
        *next = keep * *next + (1 - keep) * value;
        ++next;
      }
    }
  }
  EXPECT_EQ(CopyParameters(stack->parameters("")), CopyParameters(plain->parameters("")));

  const NamedParameters predicting = CopyParameters(stack->parameters("", ParameterUse::kPrediction));
  EXPECT_NE(predicting, CopyParameters(stack->parameters("")));
  auto expected = average.begin();
  for (const auto& [name, values] : predicting) {
    for (const float value : values) {
      ASSERT_NEAR(value, *expected++, 1e-6) << name;
    }
  }
  const ReferenceNetwork reference(predicting, options_.chain.layers);
  const auto predicted = stack->Predict(input_);
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  for (int64_t j = 0; j < 7; ++j) {
    ExpectNear(predicted->row(j), reference.Apply(ToDouble(input_.row(j))), 1e-6);
  }
  EXPECT_THAT(Forward(*stack, input_).output().values(), ElementsAreArray(Forward(*plain, input_).output().values()));
  stack->RestartAverage();
  EXPECT_EQ(CopyParameters(stack->parameters("", ParameterUse::kPrediction)), CopyParameters(stack->parameters("")));
}

TEST_F(LayerStackTest, RefusesNoLayers) {
  options_.chain.layers.clear();
  ExpectCreateRefused("model.layers: expected at least one");
}

TEST_F(LayerStackTest, RefusesNoInputs) {
  options_.chain.input_width = 0;
  ExpectCreateRefused("input width: expected at least 1, found 0");
}

TEST_F(LayerStackTest, RefusesRepeatedAndEmptyNames) {
  options_.chain.layers[2].set_name("first");
  ExpectCreateRefused("model.layers[2].name");
  options_.chain.layers[2].set_name("");
  ExpectCreateRefused("model.layers[2].name");
}

TEST_F(LayerStackTest, RefusesUnitsOutOfRange) {
  options_.chain.layers[1].set_units(0);
  ExpectCreateRefused("model.layers[1].units: expected 1 to 1048576, found 0");
  options_.chain.layers[1].set_units(1048577);
  ExpectCreateRefused("model.layers[1].units");
}

TEST_F(LayerStackTest, MemoryThatCannotBeHadBecomesAStatus) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer stops the process instead of throwing.";
#endif
  options_.chain.input_width = int64_t{1} << 50;
  EXPECT_EQ(LayerStack::Create(options_).status().code(), absl::StatusCode::kInternal);
}

TEST_F(LayerStackTest, RefusesInputsOfAnotherShape) {
  auto stack = Create();
  const Matrix wide(7, 6);
  const Matrix empty(0, 5);
  EXPECT_EQ(stack->Forward(wide).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Forward(empty).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Predict(wide).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Predict(empty).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LayerStackTest, ARefusedBackwardLeavesThePassUsable) {
  auto stack = Create();
  LayerPass pass = Forward(*stack, input_);
  EXPECT_EQ(stack->Backward(pass, Matrix(7, 4), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Backward(pass, Matrix(6, 3), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Backward(pass, output_gradient_, {4}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Backward(pass, output_gradient_, {-1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Update(*stack).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(stack->Backward(pass, output_gradient_, {}).ok());
}

TEST_F(LayerStackTest, APassServesOnce) {
  auto stack = Create();
  LayerPass pass = Forward(*stack, input_);
  ASSERT_TRUE(stack->Backward(pass, output_gradient_, {}).ok());
  EXPECT_EQ(stack->Backward(pass, output_gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LayerStackTest, RefusesUpdatesWithoutNewGradients) {
  auto stack = Create();
  EXPECT_EQ(Update(*stack).code(), absl::StatusCode::kFailedPrecondition);
  LayerPass pass = Forward(*stack, input_);
  ASSERT_TRUE(stack->Backward(pass, output_gradient_, {}).ok());
  EXPECT_TRUE(Update(*stack).ok());
  EXPECT_EQ(Update(*stack).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LayerStackTest, RefusesARowOrAGradientThatDoesNotFit) {
  auto stack = Create();
  const LayerPass pass = Forward(*stack, input_);
  const std::vector<float> gradient(3);
  EXPECT_EQ(stack->BackwardRow(pass, 7, gradient, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->BackwardRow(pass, -1, gradient, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->BackwardRow(pass, 0, {gradient.data(), 2}, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->BackwardRow(pass, 0, gradient, {4}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
