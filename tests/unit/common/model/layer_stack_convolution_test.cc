// Convolutions of a LayerStack against torch::nn modules and autograd, one example at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "common/model/layer_stack.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/reference_network.h"

namespace splitveil {
namespace {

using torch::Tensor;

constexpr int64_t kBatch = 5;

v1::Layer MakeConvolution(const std::string& name, int channels, int kernel, int max_pool,
                          v1::Activation activation = v1::RELU) {
  v1::Layer layer;
  layer.set_name(name);
  layer.set_activation(activation);
  layer.mutable_convolution()->set_channels(channels);
  layer.mutable_convolution()->set_kernel(kernel);
  layer.mutable_convolution()->set_max_pool(max_pool);
  return layer;
}

// Images of 2 x 7 x 6; the pooling drops a row, the flattened output has 4 x 1 x 1 numbers and gets 3 more.
class ConvolutionTest : public ::testing::Test {
 protected:
  ConvolutionTest() {
    options_.chain.field = "model";
    options_.chain.input_width = 2 * 7 * 6;
    options_.chain.input_image = {2, 7, 6};
    options_.chain.layers = {MakeConvolution("first", 3, 3, 2), MakeConvolution("second", 5, 1, 1, v1::TANH),
                             MakeConvolution("third", 4, 3, 3), MakeLayer("fourth", 6, v1::SIGMOID)};
    options_.chain.side_width = 3;
    options_.chain.side_layer = 3;
    options_.input_gradient = true;
    options_.side_gradient = true;
    options_.seed = 3;
  }

  std::unique_ptr<LayerStack> Create() {
    auto stack = LayerStack::Create(options_);
    EXPECT_TRUE(stack.ok()) << stack.status();
    return *std::move(stack);
  }

  static Tensor Row(const Matrix& matrix, int64_t row) {
    const absl::Span<const float> values = ConstMatrixView(matrix).row(row);
    return torch::tensor(std::vector<float>(values.begin(), values.end())).unsqueeze(0).requires_grad_();
  }

  // Every output for one example, and its inputs: first.unpooled, first, second, third.unpooled, third, fourth.
  struct Reference {
    Tensor input, side;
    std::vector<Tensor> outputs;
  };
  static void Load(const NamedParameters& parameters, const std::string& name, Tensor weight, Tensor bias) {
    const torch::NoGradGuard no_grad;
    weight.copy_(torch::tensor(FindParameter(parameters, name + ".weight")).view_as(weight));
    bias.copy_(torch::tensor(FindParameter(parameters, name + ".bias")));
  }
  Reference Apply(const NamedParameters& parameters, int64_t row) const {
    torch::nn::Conv2d first(torch::nn::Conv2dOptions(2, 3, 3).padding(1));
    torch::nn::Conv2d second(torch::nn::Conv2dOptions(3, 5, 1));
    torch::nn::Conv2d third(torch::nn::Conv2dOptions(5, 4, 3).padding(1));
    torch::nn::Linear fourth(7, 6);
    Load(parameters, "first", first->weight, first->bias);
    Load(parameters, "second", second->weight, second->bias);
    Load(parameters, "third", third->weight, third->bias);
    Load(parameters, "fourth", fourth->weight, fourth->bias);
    Reference result{Row(input_, row), Row(side_, row), {}};
    const auto keep = [&](const Tensor& output) { return result.outputs.emplace_back(output); };
    Tensor values = keep(torch::relu(first(result.input.view({1, 2, 7, 6}))));
    values = keep(torch::nn::MaxPool2d(2)(values));
    values = keep(torch::tanh(second(values)));
    values = keep(torch::relu(third(values)));
    values = keep(torch::nn::MaxPool2d(3)(values));
    keep(torch::sigmoid(fourth(torch::cat({values.flatten(1), result.side}, 1))));
    return result;
  }

  static std::vector<double> ToVector(const Tensor& tensor) {
    const Tensor flat = tensor.detach().flatten().to(torch::kDouble).contiguous();
    return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
  }

  LayerStack::Options options_;
  std::mt19937 generator_{4};
  Matrix input_ = RandomMatrix(kBatch, 2 * 7 * 6, generator_);
  Matrix side_ = RandomMatrix(kBatch, 3, generator_);
  Matrix output_gradient_ = RandomMatrix(kBatch, 6, generator_);
};

TEST_F(ConvolutionTest, ForwardAndPredictAgreeWithTorchNn) {
  auto stack = Create();
  const NamedParameters parameters = CopyParameters(stack->parameters(""));
  const auto pass = stack->Forward(input_, side_);
  const auto predicted = stack->Predict(input_, side_);
  ASSERT_TRUE(pass.ok()) << pass.status();
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_EQ(stack->output_width(), 6);
  for (int64_t j = 0; j < kBatch; ++j) {
    const std::vector<double> expected = ToVector(Apply(parameters, j).outputs.back());
    ExpectNear(pass->output().row(j), expected, 1e-6);
    ExpectNear(predicted->row(j), expected, 1e-6);
  }
}

TEST_F(ConvolutionTest, GradientsOfEveryLayerAreThoseOfEachExampleAlone) {
  auto stack = Create();
  const NamedParameters parameters = CopyParameters(stack->parameters(""));
  auto pass = stack->Forward(input_, side_);
  ASSERT_TRUE(pass.ok()) << pass.status();
  const auto gradients = stack->Backward(*pass, output_gradient_, {0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (int64_t j = 0; j < kBatch; ++j) {
    const Reference alone = Apply(parameters, j);
    std::vector<Tensor> targets = alone.outputs;
    targets.push_back(alone.input);
    targets.push_back(alone.side);
    const std::vector<Tensor> expected =
        torch::autograd::grad({alone.outputs.back()}, targets, {Row(output_gradient_, j)});
    for (size_t i = 0; i < 6; ++i) {
      ExpectNear(gradients->outputs[i].row(j), ToVector(expected[i]), 1e-6);
    }
    ExpectNear(gradients->input.row(j), ToVector(expected[6]), 1e-6);
    ExpectNear(gradients->side.row(j), ToVector(expected[7]), 1e-6);
    const auto row = stack->BackwardRow(*pass, j, output_gradient_.row(j), {3, 0});
    ASSERT_TRUE(row.ok()) << row.status();
    ExpectNear((*row)[0], ToVector(expected[3]), 1e-6);
    ExpectNear((*row)[1], ToVector(expected[0]), 1e-6);
  }
}

TEST_F(ConvolutionTest, PoolingLeavesTheNormOfAGradientAsItIs) {
  auto stack = Create();
  auto pass = stack->Forward(input_, side_);
  const auto gradients = stack->Backward(*pass, output_gradient_, {0, 1});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (int64_t j = 0; j < kBatch; ++j) {  // Each number goes to one of its window's.
    const absl::Span<const float> unpooled = gradients->outputs[0].row(j);
    const absl::Span<const float> pooled = gradients->outputs[1].row(j);
    EXPECT_NEAR(Dot(ToDouble(unpooled), unpooled), Dot(ToDouble(pooled), pooled), 1e-9);
  }
}

TEST_F(ConvolutionTest, ParametersStartAsTorchNnStartsThem) {
  auto stack = Create();
  for (const ParameterView& parameter : stack->parameters("")) {
    // fan_in: 2 * 9, 3, 5 * 9, 4 + 3.
    const int fan_in = parameter.name[0] == 's' ? 3 : parameter.name[0] == 't' ? 45 : parameter.name[1] == 'i' ? 18 : 7;
    for (const float value : parameter.values.row(0)) {
      EXPECT_LE(std::abs(value), 1 / std::sqrt(fan_in)) << parameter.name;
    }
  }
  EXPECT_EQ(stack->parameters("")[4].values.size(), 4 * 5 * 9);
}

TEST_F(ConvolutionTest, RefusesASideInputOfAnotherShape) {
  auto stack = Create();
  EXPECT_EQ(stack->Forward(input_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Forward(input_, Matrix(kBatch, 4)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stack->Predict(input_, Matrix(kBatch - 1, 3)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ConvolutionTest, RefusesShapesThatDoNotFit) {
  options_.chain.side_layer = 1;
  EXPECT_EQ(LayerStack::Create(options_).status().message(),
            "model.layers[1]: expected a fully connected layer to read own features, found a convolution");
  options_.chain.layers[2].mutable_convolution()->set_max_pool(4);
  options_.chain.side_layer = 3;
  EXPECT_EQ(LayerStack::Create(options_).status().message(),
            "model.layers[2].convolution.max_pool: expected at most 3, as the images are 3 x 3 pixels there, "
            "found 4");
}

}  // namespace
}  // namespace splitveil
