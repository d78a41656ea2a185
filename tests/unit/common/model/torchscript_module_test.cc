// TorchScript modules trained through TorchScriptModule against the same computation in plain LibTorch.
#include "common/model/torchscript_module.h"

#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/torchscript_fixtures.h"

namespace splitveil {
namespace {

using torch::Tensor;

constexpr int64_t kInputs = 5;
constexpr int64_t kOutputs = 3;

Tensor AsTensor(ConstMatrixView matrix) {
  return torch::from_blob(const_cast<float*>(matrix.data()), {matrix.rows(), matrix.cols()}).clone();
}

// Largest difference of any two elements.
double Difference(const Tensor& expected, ConstMatrixView found) {
  const Tensor values = AsTensor(found);
  EXPECT_EQ(expected.numel(), values.numel());
  return (expected.detach().reshape(-1) - values.reshape(-1)).abs().max().item<double>();
}

class TorchScriptModuleTest : public ::testing::Test {
 protected:
  TorchScriptModuleTest() {
    torch::manual_seed(3);
    w1_ = torch::randn({4, kInputs});
    b1_ = torch::randn({4});
    w2_ = torch::randn({kOutputs, 4});
    b2_ = torch::randn({kOutputs});
    options_.field = "bottom_model.torchscript_path";
    options_.path = folder_.File("half.pt");
    options_.numbers = {{{kInputs}, /*gradient=*/true}};
    options_.output_width = kOutputs;
    options_.optimizer.learning_rate = 1e-2;
    input_ = RandomMatrix(8, kInputs, random_);
    gradient_ = RandomMatrix(8, kOutputs, random_);
  }

  // features.0 (linear), features.1 (ReLU in place), then linear: out.
  torch::jit::Module Network() const {
    const auto features =
        MakeScript("Features", {}, {{"0", MakeLinearScript("First", w1_, b1_)}, {"1", MakeReluScript("Relu")}},
                   "def forward(self, x): return getattr(self, '1').forward(getattr(self, '0').forward(x))");
    return MakeScript("Network", {}, {{"features", features}, {"out", MakeLinearScript("Out", w2_, b2_)}},
                      "def forward(self, x): return self.out.forward(self.features.forward(x))");
  }

  std::unique_ptr<TorchScriptModule> Create(const torch::jit::Module& module) {
    module.save(options_.path);
    auto created = TorchScriptModule::Create(options_);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? *std::move(created) : nullptr;
  }

  // Expects the module to be refused with a message that has all of `parts`, and the file and the field.
  void ExpectRefused(const torch::jit::Module& module, const std::vector<std::string>& parts) {
    module.save(options_.path);
    ExpectPathRefused(parts);
  }
  void ExpectPathRefused(const std::vector<std::string>& parts) {
    const absl::Status status = TorchScriptModule::Create(options_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const std::string& part : parts) {
      EXPECT_TRUE(absl::StrContains(status.message(), part)) << status << "\nlacks: " << part;
    }
    EXPECT_TRUE(absl::StrContains(status.message(), options_.path)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), options_.field)) << status;
  }

  TorchScriptInput Input() const { return {{input_}, {}}; }

  const splitveil::testing::TempFolder folder_;
  std::mt19937 random_{7};
  Tensor w1_, b1_, w2_, b2_;
  TorchScriptModule::Options options_;
  Matrix input_, gradient_;
};

TEST_F(TorchScriptModuleTest, GradientsOfInputsLayersAndParametersAreAutogradsAlsoBehindOperationsInPlace) {
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->layers(), (std::vector<std::string>{"features.0", "features.1", "features", "out"}));
  auto pass = module->Forward(Input());
  ASSERT_TRUE(pass.ok()) << pass.status();
  const auto gradients = module->Backward(*pass, gradient_, module->layers());
  ASSERT_TRUE(gradients.ok()) << gradients.status();

  const Tensor x = AsTensor(input_).requires_grad_();
  const Tensor first = torch::linear(x, w1_, b1_);
  const Tensor second = first.relu();
  const Tensor out = torch::linear(second, w2_, b2_);
  const auto expected = torch::autograd::grad({out}, {first, second, out, x}, {AsTensor(gradient_)});
  EXPECT_LE(Difference(out, pass->output()), 1e-6);
  EXPECT_LE(Difference(expected[0], gradients->layers[0]), 1e-6);
  EXPECT_LE(Difference(expected[1], gradients->layers[1]), 1e-6);
  EXPECT_LE(Difference(expected[1], gradients->layers[2]), 1e-6);
  EXPECT_LE(Difference(expected[2], gradients->layers[3]), 1e-6);
  EXPECT_LE(Difference(expected[3], gradients->inputs[0]), 1e-6);

  const std::vector<float> hint = {1, -2, 0.5};
  const auto row = module->BackwardRow(*pass, 2, hint, {"features.0"});
  ASSERT_TRUE(row.ok()) << row.status();
  const Tensor one = torch::linear(AsTensor(input_).narrow(0, 2, 1), w1_, b1_).requires_grad_();
  const auto clean =
      torch::autograd::grad({torch::linear(one.relu(), w2_, b2_)}, {one}, {torch::tensor(hint).unsqueeze(0)});
  EXPECT_LE(Difference(clean[0], {row->front().data(), 1, 4}), 1e-6);
}

TEST_F(TorchScriptModuleTest, TrainsAsAdamInPlainLibTorch) {
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  std::vector<Tensor> parameters;
  for (const Tensor& initial : {w1_, b1_, w2_, b2_}) {
    parameters.push_back(initial.clone().requires_grad_());
  }
  torch::optim::Adam adam(parameters, torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < 20; ++step) {
    auto pass = module->Forward(Input());
    ASSERT_TRUE(pass.ok()) << pass.status();
    ASSERT_TRUE(module->Backward(*pass, gradient_, {}).ok());
    ASSERT_TRUE(module->Update().ok());
    adam.zero_grad();
    const Tensor hidden = torch::linear(AsTensor(input_), parameters[0], parameters[1]).relu();
    (torch::linear(hidden, parameters[2], parameters[3]) * AsTensor(gradient_)).sum().div(8).backward();
    adam.step();
  }
  const NamedParameters values = module->Values(TorchScriptModule::Part::kModel);
  ASSERT_EQ(values.size(), 4);
  EXPECT_EQ(values[0].first, "features.0.weight");
  EXPECT_EQ(values[3].first, "out.bias");
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE((torch::tensor(values[i].second) - parameters[i].detach().reshape(-1)).abs().max().item<double>(), 1e-6);
    EXPECT_GT((torch::tensor(values[i].second) - std::vector<Tensor>({w1_, b1_, w2_, b2_})[i].reshape(-1))
                  .abs()
                  .max()
                  .item<double>(),
              0.01);
  }
}

}  // namespace
}  // namespace splitveil
