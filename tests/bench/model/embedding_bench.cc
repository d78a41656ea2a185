// One training step of an embedding: the rows of a batch of 1,024 examples with 26 categories, uniform over a table of
// 1 and of 10 million rows, are looked up and then updated. Its cost should hardly depend on the size of the table.
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "common/matrix/matrix.h"
#include "common/model/embedding_table.h"

namespace splitveil {
namespace {

constexpr int64_t kBatch = 1024, kCategorical = 26, kDimension = 8;
constexpr size_t kBatches = 200;  // Of 5 million rows together.

OptimizerOptions Adam() { return {}; }

OptimizerOptions Sgd() {
  OptimizerOptions options;
  options.method = OptimizerOptions::Method::kSgd;
  return options;
}

void EmbeddingStep(benchmark::State& state, const OptimizerOptions& optimizer) {
  EmbeddingTable::Options options;
  options.rows = state.range(0);
  options.dimension = kDimension;
  options.optimizer = optimizer;
  auto table = EmbeddingTable::Create(options);
  if (!table.ok()) {
    state.SkipWithError(table.status().ToString().c_str());
    return;
  }
  Matrix looked_up(kBatch, kCategorical * kDimension);
  Matrix gradient(kBatch, kCategorical * kDimension);
  std::fill_n(gradient.data(), gradient.size(), 0.01f);
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::vector<std::vector<int64_t>> batches(kBatches, std::vector<int64_t>(kBatch * kCategorical));
  for (std::vector<int64_t>& indices : batches) {
    for (int64_t& index : indices) {
      index = static_cast<int64_t>(random() % static_cast<uint64_t>(options.rows));
    }
  }
  size_t next = 0;
  for (auto _ : state) {
    const std::vector<int64_t>& indices = batches[next++ % kBatches];
    (void)table->Gather(indices, ParameterUse::kTraining, looked_up);
    (void)table->Update({{indices, gradient}}, 1.0 / kBatch);
  }
}

BENCHMARK_CAPTURE(EmbeddingStep, adam, Adam())->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(EmbeddingStep, sgd, Sgd())->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace splitveil
