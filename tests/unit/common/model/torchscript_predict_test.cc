// What Predict keeps of a TorchScript module from one call to the next: one copy, and nothing that a call changed.
#include <algorithm>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>

#include "common/model/torchscript_module.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/common/model/model_fixtures.h"
#include "tests/unit/common/model/torchscript_fixtures.h"

namespace splitveil {
namespace {

constexpr int64_t kWidth = 256;
constexpr int64_t kRows = 2;

// LibTorch's own report of what it allocates on this thread.
class LargeAllocations final : public c10::MemoryReportingInfoBase {
 public:
  int count = 0;  // As large as a weight, which is more than anything else here.

  void reportMemoryUsage(void* /*ptr*/, int64_t bytes, int64_t /*allocated*/, int64_t /*reserved*/,
                         c10::Device /*device*/) override {
    count += bytes >= kWidth * kWidth * int64_t{sizeof(float)} ? 1 : 0;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

class TorchScriptPredictTest : public ::testing::Test {
 protected:
  TorchScriptPredictTest() {
    options_.field = "model.torchscript_path";
    options_.path = folder_.File("half.pt");
    options_.numbers = {{{kWidth}, /*gradient=*/true}};
    options_.output_width = kWidth;
    options_.optimizer.learning_rate = 1e-2;
    input_ = RandomMatrix(kRows, kWidth, random_);
    gradient_ = RandomMatrix(kRows, kWidth, random_);
  }

  std::unique_ptr<TorchScriptModule> Create(const torch::jit::Module& module) {
    module.save(options_.path);
    auto created = TorchScriptModule::Create(options_);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? *std::move(created) : nullptr;
  }

  // Copies of the weight that `work` makes.
  static int CopiesIn(const std::function<void()>& work) {
    const auto allocations = std::make_shared<LargeAllocations>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocations);
    work();
    return allocations->count;
  }

  static std::string Bytes(const float* rows) {
    return {reinterpret_cast<const char*>(rows), kRows * kWidth * sizeof(float)};
  }

  // Expects the bits that the module itself, copied for this alone, gives.
  void ExpectPredictsAsACopy(TorchScriptModule& module) {
    torch::jit::Module script = module.ScriptToPredict();
    const torch::NoGradGuard no_grad;
    const torch::Tensor expected =
        script.forward({torch::from_blob(input_.data(), {kRows, kWidth}).clone()}).toTensor().contiguous();
    const auto found = module.Predict(Input());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Bytes(expected.data_ptr<float>()), Bytes(found->data()));
  }

  void Step(TorchScriptModule& module) {
    auto pass = module.Forward(Input());
    ASSERT_TRUE(pass.ok()) << pass.status();
    ASSERT_TRUE(module.Backward(*pass, gradient_, {}).ok());
    pass = TorchScriptPass();
    ASSERT_TRUE(module.Update().ok());
  }

  TorchScriptInput Input() const { return {{input_}, {}}; }

  const splitveil::testing::TempFolder folder_;
  std::mt19937 random_{5};
  TorchScriptModule::Options options_;
  Matrix input_, gradient_;
};

TEST_F(TorchScriptPredictTest, CopiesTheModuleOnceUntilItLearns) {
  torch::manual_seed(1);
  const auto module = Create(MakeLinearScript("Linear", torch::randn({kWidth, kWidth}) / 16, torch::randn({kWidth})));
  ASSERT_NE(module, nullptr);
  const auto predict = [&] { EXPECT_TRUE(module->Predict(Input()).ok()); };
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_GE(CopiesIn(predict), 1) << "the count sees no copy";
    for (int batch = 0; batch < 3; ++batch) {
      EXPECT_EQ(CopiesIn(predict), 0) << batch;
    }
    // Also behind an update, whose parameters the copy before it lacks.
    ExpectPredictsAsACopy(*module);
    Step(*module);
    ExpectPredictsAsACopy(*module);
    Step(*module);
  }
  ASSERT_TRUE(module->Predict(Input()).ok());
  NamedParameters values = module->Values(TorchScriptModule::Part::kModel);
  values.front().second.front() += 1;
  ASSERT_TRUE(module->SetValues(TorchScriptModule::Part::kModel, values).ok());
  ExpectPredictsAsACopy(*module);
}

TEST_F(TorchScriptPredictTest, TrainingBesideNoOtherBatchCopiesNothing) {
  const auto module = Create(MakeLinearScript("Linear", torch::ones({kWidth, kWidth}) / 16, torch::ones({kWidth})));
  ASSERT_NE(module, nullptr);
  Step(*module);
  // The gradient and its mean over the batch are as large as the weight.
  const int gradients = CopiesIn([&] { Step(*module); });
  EXPECT_EQ(CopiesIn([&] { Step(*module); }), gradients);
  EXPECT_LE(gradients, 2);
}

// Of a module that counts its calls in `calls` of some type, and answers zeros after the third.
class TorchScriptCallsTest : public TorchScriptPredictTest {
 protected:
  void ExpectForgetsCalls(const c10::TypePtr& type, const c10::IValue& none, const std::string& count,
                          const std::string& calls) {
    torch::jit::Module script = MakeScript("Counting", {{"weight", torch::eye(kWidth)}}, {}, "");
    script.register_attribute("calls", type, none);
    script.define("def forward(self, x):\n  " + count + "\n  y = torch.mm(x, self.weight)\n  if " + calls +
                  " > 3:\n    y = y * 0.0\n  return y\n");
    const auto module = Create(script);
    ASSERT_NE(module, nullptr);
    for (int call = 0; call < 6; ++call) {
      const auto found = module->Predict(Input());
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_TRUE(std::equal(found->data(), found->data() + found->size(), input_.data())) << count << ", " << call;
    }
  }
};

TEST_F(TorchScriptCallsTest, AreForgottenFromOnePredictToTheNext) {
  ExpectForgetsCalls(c10::IntType::get(), 0, "self.calls = self.calls + 1", "self.calls");
  ExpectForgetsCalls(c10::TensorType::get(), torch::zeros({1}), "self.calls.add_(1)", "float(self.calls)");
  ExpectForgetsCalls(c10::ListType::ofInts(), c10::List<int64_t>(), "self.calls.append(1)", "len(self.calls)");
  ExpectForgetsCalls(c10::ListType::ofTensors(), c10::List<at::Tensor>({torch::zeros({1})}), "self.calls[0].add_(1)",
                     "float(self.calls[0])");
}

}  // namespace
}  // namespace splitveil
