// Alignment of two parties in one process that share its cores: an upper bound for two machines is twice the rate.
#include <benchmark/benchmark.h>
#include <thread>

#include "absl/strings/str_cat.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/private_set_intersection.h"
#include "tests/testing/alignment_channel_pair.h"

namespace splitveil {
namespace {

std::vector<std::string> Ids(int64_t begin, int64_t count) {
  std::vector<std::string> ids;
  for (int64_t i = begin; i < begin + count; ++i) {
    ids.push_back(absl::StrCat("customer-", i));
  }
  return ids;
}

// `count` ids each, of which nine in ten are shared.
void Align(benchmark::State& state) {
  const int64_t count = state.range(0);
  const std::vector<std::string> first = Ids(0, count), second = Ids(count / 10, count);
  AlignmentOptions options;
  options.run_id = "bench";
  for (auto unused : state) {
    AlignmentChannelPair channels(/*capacity=*/16);
    std::thread peer([&] {
      if (!AlignIds(second, options, *channels.second).ok()) {
        channels.second->Close();
      }
    });
    const absl::StatusOr<AlignedIds> aligned = AlignIds(first, options, *channels.first);
    peer.join();
    if (!aligned.ok() || aligned->rows.size() != first.size() - count / 10) {
      state.SkipWithError("wrong intersection");
      return;
    }
  }
  state.counters["ids_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations() * count), benchmark::Counter::kIsRate);
}
BENCHMARK(Align)->Arg(10'000)->Arg(100'000)->UseRealTime()->Unit(benchmark::kMillisecond);

// A batch of ids, as the alignment takes them.
void HashAndMask(benchmark::State& state) {
  const IdHasher hasher("bench");
  const MaskingKey key = MaskingKey::Generate();
  std::vector<Point> masked(kRistrettoBatch);
  for (auto unused : state) {
    benchmark::DoNotOptimize(key.MaskHashes([&](size_t i) { return hasher.Hash(absl::StrCat("customer-", i)); },
                                            /*threads=*/1, absl::MakeSpan(masked)));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRistrettoBatch));
}
BENCHMARK(HashAndMask);

}  // namespace
}  // namespace splitveil
