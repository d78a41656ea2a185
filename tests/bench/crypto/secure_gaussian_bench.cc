// The noise of one batch of 1024 examples and cut width 128, and what it is made of. Compare rows of one run: AES alone
// is the floor, libm the straightforward way from the same keystream.
#include <array>
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/crypto/aes_ctr.h"
#include "common/crypto/secure_gaussian.h"

namespace splitveil {
namespace {

constexpr size_t kRows = 1024;
constexpr size_t kColumns = 128;
constexpr size_t kFloats = kRows * kColumns;
constexpr size_t kKeystreamBytes = kFloats / 2 * kWordsPerNormalPair * sizeof(uint32_t);
constexpr std::array<uint8_t, 32> kKey = {1, 2, 3};

void CountFloats(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kFloats));
}

void FillBatch(benchmark::State& state) {
  const auto generator = *SecureGaussian::Create(SecretKey(kKey));
  std::vector<float> normals(kFloats);
  NoisePosition position;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    ++position.batch;
    generator->Fill(position, 0, absl::MakeSpan(normals));
    benchmark::DoNotOptimize(normals.data());
  }
  CountFloats(state);
}
BENCHMARK(FillBatch)->Unit(benchmark::kMicrosecond);

void FillBatchRowByRow(benchmark::State& state) {
  const auto generator = *SecureGaussian::Create(SecretKey(kKey));
  std::vector<float> normals(kFloats);
  NoisePosition position;
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    ++position.batch;
    for (size_t row = 0; row < kRows; ++row) {
      generator->Fill(position, row * kColumns, absl::MakeSpan(normals).subspan(row * kColumns, kColumns));
    }
    benchmark::DoNotOptimize(normals.data());
  }
  CountFloats(state);
}
BENCHMARK(FillBatchRowByRow)->Unit(benchmark::kMicrosecond);

void KeystreamAlone(benchmark::State& state) {
  AesCtr cipher(kKey);
  std::vector<uint8_t> keystream(kKeystreamBytes);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    cipher.Generate(absl::MakeSpan(keystream));
    benchmark::DoNotOptimize(keystream.data());
  }
  CountFloats(state);
}
BENCHMARK(KeystreamAlone)->Unit(benchmark::kMicrosecond);

void TransformAlone(benchmark::State& state) {
  const auto set = static_cast<InstructionSet>(state.range(0));
  if (set > WidestInstructionSet()) {
    state.SkipWithError("not on this processor");
    return;
  }
  const std::vector<uint32_t> words(kKeystreamBytes / sizeof(uint32_t), 0x12345678);
  std::vector<float> normals(kFloats);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    BoxMuller(words, absl::MakeSpan(normals), set);
    benchmark::DoNotOptimize(normals.data());
  }
  CountFloats(state);
}
BENCHMARK(TransformAlone)->ArgName("instruction_set")->DenseRange(0, 2)->Unit(benchmark::kMicrosecond);

void LibmBaseline(benchmark::State& state) {
  AesCtr cipher(kKey);
  std::vector<uint32_t> words(kKeystreamBytes / sizeof(uint32_t));
  std::vector<float> normals(kFloats);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    cipher.Generate({reinterpret_cast<uint8_t*>(words.data()), kKeystreamBytes});
    for (size_t pair = 0; pair < kFloats / 2; ++pair) {
      const uint32_t* block = &words[kWordsPerNormalPair * pair];
      const float u = static_cast<float>(block[0]) * 0x1p-32F + (static_cast<float>(block[1]) + 0.5F) * 0x1p-64F;
      const float radius = std::sqrt(-2.0F * std::log(u));
      const float angle = static_cast<float>(block[2]) * (6.2831853F * 0x1p-32F);
      normals[2 * pair] = radius * std::cos(angle);
      normals[2 * pair + 1] = radius * std::sin(angle);
    }
    benchmark::DoNotOptimize(normals.data());
  }
  CountFloats(state);
}
BENCHMARK(LibmBaseline)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace splitveil
