// Perturbing a batch against generating as many secure Gaussians in the same run: each shape's three methods should
// cost at most 1.5 times the first. And the solver: under 5 microseconds.
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/crypto/secure_gaussian.h"
#include "common/leakage/bounds.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "label_party/marvell/marvell_solver.h"
#include "label_party/protection/protection_factory.h"
#include "tests/unit/label_party/protection/head_behind.h"

namespace splitveil {
namespace {

struct Batch {
  Matrix gradients;
  std::vector<uint8_t> labels;
};

// A quarter of the rows positive; `wider` is the class of larger variance, so that the other one gets isotropic noise.
Batch MakeBatch(int64_t rows, int64_t cols, uint8_t wider) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Batch batch{Matrix(rows, cols), std::vector<uint8_t>(rows)};
  for (int64_t j = 0; j < rows; ++j) {
    batch.labels[j] = random() % 4 == 0 ? 1 : 0;
    const float spread = batch.labels[j] == wider ? 0.02f : 0.01f;
    for (float& component : batch.gradients.row(j)) {
      component = (batch.labels[j] == 1 ? 0.03f : -0.01f) + spread * normal(random);
    }
  }
  return batch;
}

std::unique_ptr<SecureGaussian> MakeGaussian() { return *SecureGaussian::Create(SecretKey::Generate()); }

void GenerateGaussians(benchmark::State& state) {
  Matrix noise(state.range(0), state.range(1));
  const auto gaussian = MakeGaussian();
  NoisePosition position;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    ++position.batch;
    gaussian->Fill(position, 0, absl::MakeSpan(noise.data(), noise.size()));
    benchmark::DoNotOptimize(noise.data());
  }
}

void Perturb(benchmark::State& state, const v1::GradientProtection& config, uint8_t wider) {
  const Batch batch = MakeBatch(state.range(0), state.range(1), wider);
  const auto protection = std::move(MakeProtection(config, MakeGaussian())->gradients);
  Matrix out(state.range(0), state.range(1));
  NoisePosition position;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    ++position.batch;
    benchmark::DoNotOptimize(PerturbRows(*protection, batch.gradients, batch.labels, position, out).ok());
  }
}

void PerturbIso(benchmark::State& state) {
  v1::GradientProtection config;
  config.mutable_iso()->set_t(1);
  Perturb(state, config, 1);
}

void PerturbMaxNorm(benchmark::State& state) {
  v1::GradientProtection config;
  config.mutable_max_norm();
  Perturb(state, config, 1);
}

void PerturbMarvellNegativesAcross(benchmark::State& state) {
  v1::GradientProtection config;
  config.mutable_marvell()->set_s(4);
  Perturb(state, config, 1);
}

void PerturbMarvellPositivesAcross(benchmark::State& state) {
  v1::GradientProtection config;
  config.mutable_marvell()->set_s(4);
  Perturb(state, config, 0);
}

void PerturbMarvellSumKl(benchmark::State& state) {
  v1::GradientProtection config;
  config.mutable_marvell()->set_sum_kl(0.25);
  Perturb(state, config, 1);
}

// Problems of the scale and spread of reference/marvell_optimum.csv, over many orders of magnitude.
std::vector<MarvellProblem> MakeProblems() {
  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::uniform_real_distribution<double> exponent(-8, 2);
  std::vector<MarvellProblem> problems(1024);
  for (MarvellProblem& problem : problems) {
    problem.d = int64_t{1} << (random() % 11);
    problem.g = std::pow(10, exponent(random));
    problem.u = problem.g * std::pow(10, exponent(random) - 2);
    problem.v = problem.g * std::pow(10, exponent(random) - 2);
    problem.p = static_cast<double>(random() % 99 + 1) / 100;
    problem.power = problem.g * std::pow(10, exponent(random) / 4);
  }
  return problems;
}

void Solve(benchmark::State& state) {
  const std::vector<MarvellProblem> problems = MakeProblems();
  size_t next = 0;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    benchmark::DoNotOptimize(SolveMarvell(problems[next++ % problems.size()])->sum_kl);
  }
}

void SolveLeastPower(benchmark::State& state) {
  const std::vector<MarvellProblem> problems = MakeProblems();
  size_t next = 0;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    benchmark::DoNotOptimize(LeastMarvellPower(problems[next++ % problems.size()], 0.25).ok());
  }
}

void ScoreAndRank(benchmark::State& state) {
  const Batch batch = MakeBatch(state.range(0), state.range(1), 1);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    benchmark::DoNotOptimize(*LeakAuc(NormScores(batch.gradients), batch.labels));
    benchmark::DoNotOptimize(*LeakAuc(CosineScores(batch.gradients, batch.gradients.row(0)), batch.labels, {0}));
  }
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1024, 128})->Args({32768, 128})->Args({128, 1600})->Unit(benchmark::kMicrosecond);
}

BENCHMARK(GenerateGaussians)->Apply(Shapes);
BENCHMARK(PerturbIso)->Apply(Shapes);
BENCHMARK(PerturbMaxNorm)->Apply(Shapes);
BENCHMARK(PerturbMarvellNegativesAcross)->Apply(Shapes);
BENCHMARK(PerturbMarvellPositivesAcross)->Apply(Shapes);
BENCHMARK(PerturbMarvellSumKl)->Apply(Shapes);
BENCHMARK(ScoreAndRank)->Apply(Shapes);
BENCHMARK(Solve);
BENCHMARK(SolveLeastPower);

}  // namespace
}  // namespace splitveil
