#include "deploy/operator/bench/alignment_bench.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/alignment_channel_pair.h"

namespace splitveil {
namespace {

constexpr size_t kMessagesInFlight = 16;  // As a stream's flow control leaves room for.

std::vector<std::string> Ids(int64_t begin, int64_t count) {
  std::vector<std::string> ids;
  ids.reserve(count);
  for (int64_t i = begin; i < begin + count; ++i) {
    ids.push_back(absl::StrCat("customer-", i));
  }
  return ids;
}

}  // namespace

absl::Status RunAlignmentBench(int64_t count) {
  const int64_t shifted = count / 10;
  const std::vector<std::string> ids = Ids(0, count), peer_ids = Ids(shifted, count);
  AlignmentOptions options;
  options.run_id = "bench";
  AlignmentChannelPair channels(kMessagesInFlight);
  // A party that fails would leave the other one waiting.
  const auto align = [&](const std::vector<std::string>& own, InMemoryAlignmentChannel& own_channel) {
    absl::StatusOr<AlignedIds> aligned = AlignIds(own, options, own_channel);
    if (!aligned.ok()) {
      own_channel.Close();
    }
    return aligned;
  };
  const auto started = std::chrono::steady_clock::now();
  absl::StatusOr<AlignedIds> peer_aligned;
  std::thread peer([&] { peer_aligned = align(peer_ids, *channels.second); });
  const absl::StatusOr<AlignedIds> aligned = align(ids, *channels.first);
  peer.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  for (const absl::StatusOr<AlignedIds>* result : {&aligned, &std::as_const(peer_aligned)}) {
    if (!result->ok()) {
      return result->status();
    }
    if ((*result)->rows.size() != static_cast<size_t>(count - shifted)) {
      return absl::InternalError("alignment: expected nine tenths of the ids in common, found another number");
    }
  }
  const nlohmann::ordered_json line = {{"bench", "alignment"},
                                       {"ids", count},
                                       {"common_ids", count - shifted},
                                       {"cores", std::thread::hardware_concurrency()},
                                       {"seconds", seconds},
                                       {"ids_per_second", static_cast<double>(count) / seconds}};
  std::printf("%s\n", line.dump().c_str());
  return absl::OkStatus();
}

}  // namespace splitveil
