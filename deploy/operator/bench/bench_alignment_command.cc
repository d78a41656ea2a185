#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/alignment/private_set_intersection.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// One direction, of a few messages' room, as a stream's flow control leaves it. Thread-safe.
class Pipe {
 public:
  absl::Status Push(const v1::AlignmentMessage& message) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || messages_.size() < kCapacity; });
    if (closed_) {
      return absl::UnavailableError("closed");
    }
    messages_.push_back(message);
    changed_.notify_all();
    return absl::OkStatus();
  }
  absl::StatusOr<v1::AlignmentMessage> Pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !messages_.empty(); });
    if (messages_.empty()) {
      return absl::OutOfRangeError("closed");
    }
    v1::AlignmentMessage message = std::move(messages_.front());
    messages_.pop_front();
    changed_.notify_all();
    return message;
  }
  // Ends the waits of both sides; what was sent can still be received.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr size_t kCapacity = 16;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::deque<v1::AlignmentMessage> messages_;
  bool closed_ = false;
};

// One party's end. Borrows both pipes.
class PipeChannel : public AlignmentChannel {
 public:
  PipeChannel(Pipe& out, Pipe& in) : out_(out), in_(in) {}
  absl::Status Send(const v1::AlignmentMessage& message) override { return out_.Push(message); }
  absl::StatusOr<v1::AlignmentMessage> Receive() override { return in_.Pop(); }

 private:
  Pipe& out_;
  Pipe& in_;
};

std::vector<std::string> Ids(int64_t begin, int64_t count) {
  std::vector<std::string> ids;
  ids.reserve(count);
  for (int64_t i = begin; i < begin + count; ++i) {
    ids.push_back(absl::StrCat("customer-", i));
  }
  return ids;
}

// Both parties' protocol in this process: they share its cores, so two machines are up to twice as fast.
absl::Status BenchAlignment(const Flags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t count, flags.GetInt("ids", 10, 100'000'000));
  const int64_t shifted = count / 10;
  const std::vector<std::string> ids = Ids(0, count), peer_ids = Ids(shifted, count);
  AlignmentOptions options;
  options.run_id = "bench";
  Pipe forth, back;
  PipeChannel channel(forth, back), peer_channel(back, forth);
  // A party that fails would leave the other one waiting.
  const auto align = [&](const std::vector<std::string>& own, PipeChannel& own_channel) {
    absl::StatusOr<AlignedIds> aligned = AlignIds(own, options, own_channel);
    if (!aligned.ok()) {
      forth.Close();
      back.Close();
    }
    return aligned;
  };
  const auto started = std::chrono::steady_clock::now();
  absl::StatusOr<AlignedIds> peer_aligned;
  std::thread peer([&] { peer_aligned = align(peer_ids, peer_channel); });
  const absl::StatusOr<AlignedIds> aligned = align(ids, channel);
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

}  // namespace

Command BenchAlignmentCommand() {
  return {"bench alignment",
          "Time the alignment of two parties in this process, nine tenths of their ids in common; a JSON line.",
          {{"ids", "20000", "Ids of each party."}},
          BenchAlignment};
}

}  // namespace splitveil
