// TorchScript modules trained through TorchScriptModule against the same computation in plain LibTorch.
#include "common/model/torchscript_module.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"

#include "common/model/export.h"
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
    options_.field = "model.torchscript_path";
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

  void Step(TorchScriptModule& module) {
    auto pass = module.Forward(Input());
    ASSERT_TRUE(pass.ok()) << pass.status();
    ASSERT_TRUE(module.Backward(*pass, gradient_, {}).ok());
    ASSERT_TRUE(module.Update().ok());
  }

  // The parameters of Network, and its loss, in plain LibTorch.
  std::vector<Tensor> Clones() const {
    std::vector<Tensor> parameters;
    for (const Tensor& initial : {w1_, b1_, w2_, b2_}) {
      parameters.push_back(initial.clone().requires_grad_());
    }
    return parameters;
  }
  Tensor Loss(const std::vector<Tensor>& parameters) const {
    const Tensor hidden = torch::linear(AsTensor(input_), parameters[0], parameters[1]).relu();
    return (torch::linear(hidden, parameters[2], parameters[3]) * AsTensor(gradient_)).sum().div(8);
  }
  // What the L2 penalty adds to the loss: torch::optim::AdamW, whose weight decay is no penalty, has none of its own.
  Tensor Penalty(const std::vector<Tensor>& parameters) const {
    Tensor squares = torch::zeros({});
    for (const Tensor& parameter : parameters) {
      squares = squares + parameter.square().sum();
    }
    return squares * (options_.optimizer.l2 / 2);
  }
  static double Distance(const TorchScriptModule& module, const std::vector<Tensor>& parameters) {
    const NamedParameters values = module.Values(TorchScriptModule::Part::kModel);
    EXPECT_EQ(values.size(), parameters.size());
    double distance = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Tensor difference = torch::tensor(values[i].second) - parameters[i].detach().reshape(-1);
      distance = std::max(distance, difference.abs().max().item<double>());
    }
    return distance;
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
  const std::vector<Tensor> parameters = Clones();
  torch::optim::Adam adam(parameters, torch::optim::AdamOptions(1e-2));
  for (int step = 0; step < 20; ++step) {
    Step(*module);
    adam.zero_grad();
    Loss(parameters).backward();
    adam.step();
  }
  const NamedParameters values = module->Values(TorchScriptModule::Part::kModel);
  EXPECT_EQ(values.front().first, "features.0.weight");
  EXPECT_EQ(values.back().first, "out.bias");
  EXPECT_LE(Distance(*module, parameters), 1e-6);
  EXPECT_GT(Distance(*module, {w1_, b1_, w2_, b2_}), 0.01) << "nothing was trained";
}

TEST_F(TorchScriptModuleTest, PredictsWithTheAverageOfTheParameters) {
  options_.optimizer.average_decay = 0.6;
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  std::vector<Tensor> averages = Clones();
  for (int step = 0; step < 12; ++step) {
    Step(*module);
    const double keep = std::min(0.6, (1.0 + step) / (10 + step));
    const NamedParameters values = module->Values(TorchScriptModule::Part::kModel);
    for (size_t i = 0; i < averages.size(); ++i) {
      averages[i] = (keep * averages[i] + (1 - keep) * torch::tensor(values[i].second).view_as(averages[i])).detach();
    }
  }
  EXPECT_GT(Distance(*module, averages), 1e-3);
  const NamedParameters predicting = module->Values(TorchScriptModule::Part::kPrediction);
  ASSERT_EQ(predicting.size(), averages.size());
  for (size_t i = 0; i < averages.size(); ++i) {
    EXPECT_LE((torch::tensor(predicting[i].second) - averages[i].reshape(-1)).abs().max().item<double>(), 1e-6);
  }
  const Tensor hidden = torch::linear(AsTensor(input_), averages[0], averages[1]).relu();
  const Tensor expected = torch::linear(hidden, averages[2], averages[3]);
  const auto predicted = module->Predict(Input());
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_LE(Difference(expected, *predicted), 1e-5);
  torch::jit::Module script = module->ScriptToPredict();
  EXPECT_LE((script.forward({AsTensor(input_)}).toTensor() - expected).abs().max().item<double>(), 1e-5);
}

// Each method against torch::optim, on gradients that the penalty, the decay and the clipping change.
TEST_F(TorchScriptModuleTest, TrainsWithEveryMethodAsTorchOptim) {
  struct Case {
    const char* name;
    std::function<void(OptimizerOptions&)> configure;
    std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<Tensor>&)> reference;
  };
  const std::vector<Case> cases = {
      {"adamw",
       [](OptimizerOptions& options) {
         options.weight_decay = 0.1;
         options.l2 = 0.01;
       },
       [](const auto& parameters) {
         return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
       }},
      {"sgd",
       [](OptimizerOptions& options) {
         options.method = OptimizerOptions::Method::kSgd;
         options.momentum = 0.9;
         options.nesterov = true;
         options.l2 = 0.01;
       },
       [](const auto& parameters) {
         return std::make_unique<torch::optim::SGD>(parameters,
                                                    torch::optim::SGDOptions(1e-2).momentum(0.9).nesterov(true));
       }},
      {"adagrad",
       [](OptimizerOptions& options) {
         options.method = OptimizerOptions::Method::kAdagrad;
         options.epsilon = 1e-10;
       },
       [](const auto& parameters) {
         return std::make_unique<torch::optim::Adagrad>(parameters, torch::optim::AdagradOptions(1e-2));
       }},
      {"clipped",
       [](OptimizerOptions& options) {
         options.method = OptimizerOptions::Method::kSgd;
         options.clip_norm = 0.05;
       },
       [](const auto& parameters) {
         return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(1e-2));
       }}};
  for (const Case& one : cases) {
    options_.optimizer = OptimizerOptions();
    options_.optimizer.learning_rate = 1e-2;
    one.configure(options_.optimizer);
    const auto module = Create(Network());
    ASSERT_NE(module, nullptr);
    std::vector<Tensor> parameters = Clones();
    const auto reference = one.reference(parameters);
    for (int step = 0; step < 10; ++step) {
      Step(*module);
      reference->zero_grad();
      Loss(parameters).backward();
      if (options_.optimizer.clip_norm > 0) {
        torch::nn::utils::clip_grad_norm_(parameters, options_.optimizer.clip_norm);
      }
      Penalty(parameters).backward();
      reference->step();
    }
    EXPECT_LE(Distance(*module, parameters), 1e-6) << one.name;
  }
}

TEST_F(TorchScriptModuleTest, GradientsOfAPassAreTakenWithTheParametersItWasComputedWith) {
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  auto early = module->Forward(Input());
  ASSERT_TRUE(early.ok());
  for (int step = 0; step < 5; ++step) {
    Step(*module);
  }
  const auto gradients = module->Backward(*early, gradient_, {});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Tensor x = AsTensor(input_).requires_grad_();
  const Tensor out = torch::linear(torch::linear(x, w1_, b1_).relu(), w2_, b2_);
  EXPECT_LE(Difference(torch::autograd::grad({out}, {x}, {AsTensor(gradient_)})[0], gradients->inputs[0]), 1e-6);
  EXPECT_EQ(module->Backward(*early, gradient_, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TorchScriptModuleTest, ValuesThatAreSetLeaveAPassInFlightAsItWas) {
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  const NamedParameters initial = module->Values(TorchScriptModule::Part::kModel);
  NamedParameters zeros = initial;
  for (auto& [name, values] : zeros) {
    std::fill(values.begin(), values.end(), 0.0F);
  }
  auto early = module->Forward(Input());
  ASSERT_TRUE(early.ok());
  ASSERT_TRUE(module->SetValues(TorchScriptModule::Part::kModel, zeros).ok());
  auto late = module->Forward(Input());
  ASSERT_TRUE(late.ok());
  const auto gradients = module->Backward(*early, gradient_, {});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Tensor x = AsTensor(input_).requires_grad_();
  const Tensor out = torch::linear(torch::linear(x, w1_, b1_).relu(), w2_, b2_);
  EXPECT_LE(Difference(torch::autograd::grad({out}, {x}, {AsTensor(gradient_)})[0], gradients->inputs[0]), 1e-6);
  EXPECT_EQ(Difference(torch::zeros({8, kOutputs}), late->output()), 0);
}

torch::jit::Module MakeBatchNormScript() {
  torch::jit::Module normalisation =
      MakeScript("Norm", {{"weight", torch::ones({kInputs})}, {"bias", torch::zeros({kInputs})}}, {}, "");
  normalisation.register_buffer("running_mean", torch::zeros({kInputs}));
  normalisation.register_buffer("running_var", torch::ones({kInputs}));
  normalisation.register_buffer("count", torch::zeros({}, torch::kLong));
  normalisation.define(R"(
def forward(self, x):
    if self.training:
        self.count.add_(1)
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5,
                            False)
)");
  return MakeScript("Network", {}, {{"norm", normalisation}}, "def forward(self, x): return self.norm.forward(x)");
}

// The gradient of a row would be made of other rows' labels, which no noise by the row's own gradient hides.
TEST_F(TorchScriptModuleTest, WhereEachRowIsProtectedByItselfNoneMayDependOnOthersInTraining) {
  options_.rows_apart = true;
  ASSERT_NE(Create(Network()), nullptr);
  const torch::jit::Module dropout =
      MakeScript("Noisy", {}, {{"inner", Network()}},
                 "def forward(self, x): return self.inner.forward(torch.dropout(x, 0.5, self.training))");
  EXPECT_NE(Create(dropout), nullptr);  // By chance, but each row by itself.
  // A mean without a gradient, as of running statistics, shows in the values alone.
  const torch::jit::Module centred = MakeScript("Centred", {}, {{"inner", Network()}},
                                                "def forward(self, x):\n    if self.training:\n        x = x - "
                                                "x.mean(0).detach()\n    return self.inner.forward(x)");
  ExpectRefused(centred, {"depends on other rows (batch normalisation)"});
  options_.output_width = kInputs;
  ExpectRefused(MakeBatchNormScript(), {"layer normalisation, or a protection other than iso, max_norm and marvell"});
}

TEST_F(TorchScriptModuleTest, BuffersMoveInTrainingForwardsOnlyAsInBatchNorm) {
  options_.output_width = kInputs;
  gradient_ = RandomMatrix(8, kInputs, random_);
  const auto module = Create(MakeBatchNormScript());
  ASSERT_NE(module, nullptr);
  torch::nn::BatchNorm1d reference(kInputs);
  for (int pass = 0; pass < 3; ++pass) {
    const auto ours = module->Forward(Input());
    ASSERT_TRUE(ours.ok());
    EXPECT_LE(Difference(reference->forward(AsTensor(input_)), ours->output()), 1e-6);
  }
  reference->eval();
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_LE(Difference(reference->forward(AsTensor(input_)), *module->Predict(Input())), 1e-6);
  }
  for (const auto& [name, values] : module->Values(TorchScriptModule::Part::kModel)) {
    if (name == "norm.running_mean") {
      const std::vector<uint16_t> digits(values.begin(), values.end());
      const Tensor mean = torch::from_blob(const_cast<uint16_t*>(digits.data()), {kInputs}, torch::kFloat);
      EXPECT_LE((mean - reference->running_mean).abs().max().item<double>(), 1e-6);
    } else if (name == "norm.count") {
      EXPECT_EQ(values, (std::vector<float>{3, 0, 0, 0}));
    }
  }
}

TEST_F(TorchScriptModuleTest, ASubmoduleCalledTwiceIsALayerAtItsLastCallAndTiedWeightsStayOne) {
  const Tensor square = torch::randn({kInputs, kInputs});
  const Tensor zeros = torch::zeros({kInputs});
  torch::jit::Module network = MakeScript(
      "Network", {},
      {{"twice", MakeLinearScript("Twice", square, zeros)}, {"other", MakeLinearScript("Other", square, zeros)}},
      "def forward(self, x): return "
      "self.other.forward(torch.tanh(self.twice.forward(torch.tanh(self.twice.forward(x)))))");
  network.attr("other").toModule().setattr("weight", network.attr("twice").toModule().attr("weight"));
  options_.output_width = kInputs;
  gradient_ = RandomMatrix(8, kInputs, random_);
  const auto module = Create(network);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->layers(), (std::vector<std::string>{"twice", "other"}));
  auto pass = module->Forward(Input());
  ASSERT_TRUE(pass.ok());
  const auto gradients = module->Backward(*pass, gradient_, {"twice"});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ASSERT_TRUE(module->Update().ok());
  const Tensor weight = square.clone().requires_grad_();
  const Tensor last = torch::linear(torch::linear(AsTensor(input_), weight).tanh(), weight);
  const Tensor out = torch::linear(last.tanh(), weight);
  const Tensor expected = torch::autograd::grad({out}, {last}, {AsTensor(gradient_)}, /*retain_graph=*/true)[0];
  EXPECT_LE(Difference(expected, gradients->layers[0]), 1e-6);
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(1e-2));
  (out * AsTensor(gradient_)).sum().div(8).backward();
  adam.step();
  for (const auto& [name, values] : module->Values(TorchScriptModule::Part::kModel)) {
    if (absl::EndsWith(name, "weight")) {
      EXPECT_LE((torch::tensor(values) - weight.detach().reshape(-1)).abs().max().item<double>(), 1e-6) << name;
    }
  }
}

TEST_F(TorchScriptModuleTest, LeavesOutSubmodulesWhoseOutputIsNoBatchOfFloats) {
  const auto transposed = MakeScript("Transposed", {}, {}, "def forward(self, x): return x.t()");
  const auto counted = MakeScript("Counted", {}, {}, "def forward(self, x): return x.size(0)");
  const auto module =
      Create(MakeScript("Network", {{"w", w2_}},
                        {{"transposed", transposed}, {"counted", counted}, {"first", MakeLinearScript("F", w1_, b1_)}},
                        "def forward(self, x):\n"
                        "  n = self.counted.forward(x)\n"
                        "  h = self.transposed.forward(self.first.forward(x))\n"
                        "  return torch.linear(h.t(), self.w) * n / n"));
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->layers(), std::vector<std::string>{"first"});
  auto pass = module->Forward(Input());
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(module->Backward(*pass, gradient_, {"transposed"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TorchScriptModuleTest, GoesOnFromACopiedStateAsIfItHadNotStopped) {
  const auto one = Create(Network());
  const auto other = Create(Network());
  for (int step = 0; step < 3; ++step) {
    Step(*one);
  }
  ASSERT_TRUE(
      other->SetValues(TorchScriptModule::Part::kTraining, one->Values(TorchScriptModule::Part::kTraining)).ok());
  other->set_steps(one->steps());
  Step(*one);
  Step(*other);
  EXPECT_EQ(one->Values(TorchScriptModule::Part::kTraining), other->Values(TorchScriptModule::Part::kTraining));
}

TEST_F(TorchScriptModuleTest, BuffersOfEveryTypeAndValueComeBackToTheLastBit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor last = torch::tensor({1.0, 0.1, -kInfinity}, torch::kDouble);
  const std::map<std::string, Tensor> buffers = {{"count", torch::tensor((int64_t{1} << 53) + 1)},
                                                 {"flags", torch::tensor({1, 0, 1}, torch::kBool)},
                                                 {"mask", torch::full({4, 4}, -kInfinity).triu(1)},
                                                 {"odd", torch::tensor({1, 2, 255}, torch::kByte)},
                                                 {"strided", torch::stack({last, last, last}).t()}};
  const auto network = [&](bool empty) {
    torch::jit::Module module =
        MakeScript("Masked", {{"w", w2_}, {"first", w1_}}, {},
                   "def forward(self, x): return torch.linear(torch.linear(x, self.first), self.w)");
    for (const auto& [name, value] : buffers) {
      module.register_buffer(name, empty ? torch::zeros_like(value) : value.clone());
    }
    module.register_parameter("frozen", empty ? torch::zeros({2}) : torch::tensor({kInfinity, 0.5}).to(torch::kFloat),
                              false);
    module.attr("frozen").toTensor().requires_grad_(false);
    return module;
  };
  using Part = TorchScriptModule::Part;
  const auto saved = Create(network(/*empty=*/false));
  for (const Part part : {Part::kModel, Part::kPrediction, Part::kTraining}) {
    const auto other = Create(network(/*empty=*/true));
    const NamedParameters values = saved->Values(part);
    for (const auto& [name, numbers] : values) {
      EXPECT_TRUE(std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); }))
          << name;
    }
    ASSERT_TRUE(other->SetValues(part, values).ok());
    ASSERT_TRUE(ExportModule(*other, {folder_.path(), "exported"}).ok());
    const torch::jit::Module found = torch::jit::load(folder_.File("exported.pt"));
    for (const auto& [name, value] : buffers) {
      EXPECT_EQ(found.attr(name).toTensor().scalar_type(), value.scalar_type()) << name;
      EXPECT_TRUE(found.attr(name).toTensor().equal(value)) << name;
    }
    EXPECT_EQ(found.attr("frozen").toTensor()[0].item<double>(), kInfinity);
    NamedParameters damaged = values;
    for (auto& [name, numbers] : damaged) {
      numbers[0] = name == "count" ? 0.5f : numbers[0];
    }
    EXPECT_EQ(other->SetValues(part, damaged).code(), absl::StatusCode::kInvalidArgument);
  }
}

// The first parameter takes part in batches of 8 rows alone, the second in the others.
TEST_F(TorchScriptModuleTest, EachParameterGoesOnFromItsOwnSteps) {
  const auto network =
      MakeScript("Sometimes", {{"a", torch::randn({kOutputs, kInputs})}, {"b", torch::randn({kOutputs, kInputs})}}, {},
                 "def forward(self, x):\n"
                 "  if x.size(0) == 8:\n"
                 "    return torch.linear(x, self.a)\n"
                 "  return torch.linear(x, self.b)");
  const auto one = Create(network);
  const auto other = Create(network);
  const auto step = [&](TorchScriptModule& module, int64_t rows) {
    input_ = RandomMatrix(rows, kInputs, random_);
    gradient_ = RandomMatrix(rows, kOutputs, random_);
    Step(module);
  };
  for (const int64_t rows : {8, 5, 5, 5, 8, 5}) {
    step(*one, rows);
  }
  ASSERT_TRUE(
      other->SetValues(TorchScriptModule::Part::kTraining, one->Values(TorchScriptModule::Part::kTraining)).ok());
  other->set_steps(one->steps());
  for (const int64_t rows : {8, 5}) {
    const std::mt19937 before = random_;
    step(*one, rows);
    random_ = before;
    step(*other, rows);
  }
  EXPECT_EQ(one->Values(TorchScriptModule::Part::kTraining), other->Values(TorchScriptModule::Part::kTraining));
}

TEST_F(TorchScriptModuleTest, RefusesFilesThatAreNoTorchScript) {
  ExpectPathRefused({"expected a TorchScript file", "no file has this name"});
  std::ofstream(options_.path) << "not a module";
  ExpectPathRefused({"expected a TorchScript file", "found something else"});
  std::ofstream(options_.path).close();
  ExpectPathRefused({"found something else"});
  options_.path = folder_.path();
  ExpectPathRefused({"expected a TorchScript file"});
}

TEST_F(TorchScriptModuleTest, RefusesATruncatedFile) {
  Network().save(options_.path);
  std::filesystem::resize_file(options_.path, std::filesystem::file_size(options_.path) / 2);
  ExpectPathRefused({"found something else"});
}

TEST_F(TorchScriptModuleTest, RefusesModulesThatDoNotFit) {
  const auto with = [&](const std::string& source) { return MakeScript("N", {{"w", w2_}}, {}, source); };
  ExpectRefused(with("def other(self, x): return x"), {"the module has no method forward"});
  ExpectRefused(with("def forward(self, x, y): return x + y"), {"expected a forward of 1 tensors, found one of 2"});
  ExpectRefused(with("def forward(self, x: int): return x"), {"expected a tensor as forward's argument x, found int"});
  ExpectRefused(with("def forward(self, x): return torch.linear(x, self.w)"), {"found an error", "mat1 and mat2"});
  ExpectRefused(with("def forward(self, x): return x * self.w.sum()"), {"Float [2, 3]", "found Float [2, 5]"});
  ExpectRefused(with("def forward(self, x): return (x, self.w)"), {"found Tuple"});
  ExpectRefused(with("def forward(self, x): return (x[:, :3] * self.w.sum()).double()"), {"found Double [2, 3]"});
  ExpectRefused(with("def forward(self, x): return torch.dropout(x[:, :3] * self.w.sum(), 0.5, True)"),
                {"in eval mode", "chance"});
  ExpectRefused(with("def forward(self, x): return (x - x.mean(0))[:, :3] * self.w.sum()"),
                {"in eval mode", "other rows"});
  ExpectRefused(with("def forward(self, x): return x[:2, :3] * self.w.sum()"), {"for 3 rows"});
  options_.numbers.front().gradient = false;  // With an embedding before it, that is trained.
  ExpectRefused(with("def forward(self, x): return x[:, :3]"), {"expected parameters that can be trained"});
}

TEST_F(TorchScriptModuleTest, RefusesParametersThatAreNotFloat32OrOverlap) {
  ExpectRefused(MakeScript("N", {{"w", w2_.to(torch::kDouble)}}, {}, "def forward(self, x): return x[:, :3]"),
                {"parameter w", "float32", "Double"});
  const Tensor memory = torch::randn({20});
  torch::jit::Module module = MakeScript("N", {}, {}, "def forward(self, x): return x[:, :3]");
  module.register_parameter("a", memory.narrow(0, 0, 10), /*is_buffer=*/false);
  module.register_parameter("b", memory.narrow(0, 5, 10), /*is_buffer=*/false);
  ExpectRefused(module, {"memory of its own"});
}

TEST_F(TorchScriptModuleTest, RefusesCallsThatDoNotFit) {
  const auto module = Create(Network());
  ASSERT_NE(module, nullptr);
  const Matrix wide = RandomMatrix(8, kInputs + 1, random_);
  EXPECT_EQ(module->Forward({{wide}, {}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module->Predict({{input_}, std::vector<int64_t>{1}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module->Update().code(), absl::StatusCode::kFailedPrecondition);
  auto pass = module->Forward(Input());
  ASSERT_TRUE(pass.ok());
  EXPECT_EQ(module->Backward(*pass, wide, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module->BackwardRow(*pass, 8, {1, 2, 3}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module->BackwardRow(*pass, 0, {1, 2}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(module->SetValues(TorchScriptModule::Part::kModel, {{"x", {1}}}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
