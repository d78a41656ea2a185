// What protecting activations costs a step beside the bottom model's own forward and backward computation in the same
// run, and how it grows with the cut width d and the number of values. The fit and its derivative are O(values d^3 +
// values^2 d^2 + batch d^2).
#include <benchmark/benchmark.h>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nonlabel_party/protection/privacy_loss.h"
#include "nonlabel_party/protection/protected_bottom_model.h"

namespace splitveil {
namespace {

constexpr int64_t kBatch = 1024;
constexpr int64_t kFeatures = 100;

Matrix RandomMatrix(int64_t rows, int64_t cols) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Matrix matrix(rows, cols);
  for (int64_t k = 0; k < matrix.size(); ++k) {
    matrix.data()[k] = normal(random);
  }
  return matrix;
}

std::vector<uint8_t> RandomAttribute(int64_t values) {
  std::vector<uint8_t> numbers;
  for (int64_t i = 0; i < kBatch; ++i) {
    numbers.push_back(static_cast<uint8_t>(i * 7 % values));
  }
  return numbers;
}

void GaussianLoss(benchmark::State& state) {
  const Matrix activations = RandomMatrix(kBatch, state.range(0));
  const std::vector<uint8_t> numbers = RandomAttribute(state.range(1));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    benchmark::DoNotOptimize(GaussianPrivacyLoss(activations, {numbers, state.range(1)}, 1).value);
  }
}
BENCHMARK(GaussianLoss)
    ->ArgNames({"d", "values"})
    ->ArgsProduct({{8, 16, 32, 64, 128}, {2, 6, 12}})
    ->Unit(benchmark::kMillisecond);

void KernelLoss(benchmark::State& state) {
  const Matrix activations = RandomMatrix(kBatch, state.range(0));
  const std::vector<uint8_t> numbers = RandomAttribute(state.range(1));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    benchmark::DoNotOptimize(KernelPrivacyLoss(activations, {numbers, state.range(1)}, 1, 4).value);
  }
}
BENCHMARK(KernelLoss)->ArgNames({"d", "values"})->ArgsProduct({{16, 64}, {2, 6}})->Unit(benchmark::kMillisecond);

// A step of a bottom model of two layers, 64 and d, by method.
void Step(benchmark::State& state, v1::ActivationProtection protection) {
  BottomModelOptions options;
  options.features = {kFeatures, 0, 0};
  for (const int64_t units : {int64_t{64}, state.range(0)}) {
    v1::Layer& layer = *options.spec.add_layers();
    layer.set_name("layer" + std::to_string(options.spec.layers_size()));
    layer.set_units(static_cast<int32_t>(units));
    layer.set_activation(options.spec.layers_size() == 1 ? v1::RELU : v1::LINEAR);
  }
  options.optimizer.mutable_adam();
  options.cut_width = state.range(0);
  const std::unique_ptr<BottomModel> model = *BottomModel::Create(options);
  std::vector<ProtectedAttribute> attributes;
  if (HasObjective(protection)) {
    attributes.push_back({"sex", 0, 2});
  }
  const std::unique_ptr<ProtectedBottomModel> guarded =
      *ProtectedBottomModel::Create(model.get(), protection, attributes, state.range(0), 1);
  FeatureBatch batch;
  batch.rows = kBatch;
  batch.numeric = RandomMatrix(kBatch, kFeatures);
  batch.attributes = RandomAttribute(2);
  const Matrix gradient = RandomMatrix(kBatch, state.range(0));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    if (!guarded->Forward(batch).ok() || !guarded->Backward(gradient, {}).ok() || !guarded->Update().ok()) {
      state.SkipWithError("a step failed");
      break;
    }
  }
}

v1::ActivationProtection Method(void (*choose)(v1::ActivationProtection&)) {
  v1::ActivationProtection protection;
  choose(protection);
  return protection;
}

BENCHMARK_CAPTURE(Step, none, Method([](v1::ActivationProtection& p) { p.mutable_none(); }))
    ->ArgName("d")
    ->Arg(16)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Step, gaussian, Method([](v1::ActivationProtection& p) {
                    p.mutable_gaussian();
                    p.set_noise_sigma(1);
                    p.set_clip_norm(2);
                  }))
    ->ArgName("d")
    ->Arg(16)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Step, linear, Method([](v1::ActivationProtection& p) {
                    p.mutable_linear()->set_lambda(1);
                    p.set_noise_sigma(1);
                  }))
    ->ArgName("d")
    ->Arg(16)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Step, adversarial, Method([](v1::ActivationProtection& p) { p.mutable_adversarial()->set_omega(1); }))
    ->ArgName("d")
    ->Arg(16)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Step, pareto, Method([](v1::ActivationProtection& p) {
                    p.mutable_pareto()->set_threshold(100);
                    p.set_noise_sigma(1);
                  }))
    ->ArgName("d")
    ->Arg(16)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace splitveil
