// The versions that can be asked for, while a folder gets new ones.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_VERSION_WATCH_H_
#define SPLITVEIL_COMMON_CHECKPOINT_VERSION_WATCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/checkpoint/stored_version.h"
#include "common/process/steady_time.h"
#include "common/telemetry/log.h"

namespace splitveil {

// Looks at the folder in a thread of its own. A new version is opened and checked beside the one in use; requests take
// one or the other, never a part of both, and keep what they have taken. A version that is damaged or does not fit is
// logged once and not used before its files change; one that is removed is no longer used, so that the one before it is
// the latest again. `Version` has rows(). Thread-safe.
template <typename Version>
class VersionWatch {
 public:
  struct Options {
    std::string folder;
    std::function<absl::StatusOr<std::shared_ptr<Version>>(int64_t number)> open;
    size_t served = 2;  // The latest.
    // Why a version that is not in use has to wait; OK: it does not. It is used all the same where there is no other.
    // Null: none waits.
    std::function<absl::Status(const Version&)> waits = nullptr;
    // All are opened again once this is another. Null: only where their own files change.
    std::function<std::string()> stamp = nullptr;
    absl::Duration period = absl::Seconds(1);
  };

  // Opens what is there before it returns. Without a thread left it sees no new versions, and the log says so.
  explicit VersionWatch(Options options) : options_(std::move(options)) {
    Look();
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& error) {
      LogWarning("versions: no thread could be started, new ones are not seen: ", error.what());
    }
  }
  ~VersionWatch() {
    stopping_ = true;
    sleep_.Wake();
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  VersionWatch(const VersionWatch&) = delete;
  VersionWatch& operator=(const VersionWatch&) = delete;

  // The latest, or that of this number; null where there is none.
  std::shared_ptr<Version> Find(std::optional<int64_t> number = std::nullopt) const ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    if (!number.has_value()) {
      return served_.empty() ? nullptr : served_.rbegin()->second.version;
    }
    const auto found = served_.find(*number);
    return found == served_.end() ? nullptr : found->second.version;
  }
  // Ascending.
  std::vector<int64_t> Numbers() const ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    std::vector<int64_t> numbers;
    for (const auto& each : served_) {
      numbers.push_back(each.first);
    }
    return numbers;
  }

 private:
  struct Served {
    std::string stamp;
    std::shared_ptr<Version> version;  // Null: it cannot be used.
    bool has_waited = false;           // The log has said so.
  };
  using ByNumber = std::map<int64_t, Served>;

  void Run() {
    while (!stopping_) {
      sleep_.Until(SteadyAfter(options_.period));
      if (!stopping_) {
        Look();
      }
    }
  }

  Served Open(int64_t number) {
    Served found;
    found.stamp = VersionStamp(options_.folder, number) + (options_.stamp == nullptr ? "" : options_.stamp());
    const auto known = looked_at_.find(number);
    if (known != looked_at_.end() && known->second.stamp == found.stamp) {
      return known->second;
    }
    if (absl::StatusOr<std::shared_ptr<Version>> opened = options_.open(number); opened.ok()) {
      found.version = *std::move(opened);
    } else {
      LogWarning("version ", number, " is not used: ", opened.status().message());
    }
    return found;
  }

  bool Waits(int64_t number, Served& found) const ABSL_LOCKS_EXCLUDED(mutex_) {
    if (options_.waits == nullptr || Find(number) == found.version) {
      return false;
    }
    const absl::Status why = options_.waits(*found.version);
    if (!why.ok() && !std::exchange(found.has_waited, true)) {
      LogInfo("version ", number, " waits: ", why.message());
    }
    return !why.ok();
  }

  void Look() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::StatusOr<std::vector<int64_t>> there = ListVersions(options_.folder);
    if (!there.ok()) {
      return;  // A folder that cannot be read for a moment must not end the service.
    }
    ByNumber looked_at, served, waiting;
    for (auto number = there->rbegin(); number != there->rend() && served.size() < options_.served; ++number) {
      Served found = Open(*number);
      if (found.version != nullptr) {
        (Waits(*number, found) ? waiting : served).emplace(*number, found);
      }
      looked_at.emplace(*number, std::move(found));
    }
    if (served.empty() && !waiting.empty()) {
      served.insert(*waiting.rbegin());
    }
    for (const auto& [number, now] : served) {
      if (Find(number) != now.version) {
        LogInfo("version ", number, ": answers for ", now.version->rows(), " examples");
      }
    }
    looked_at_ = std::move(looked_at);
    {
      const absl::MutexLock lock(&mutex_);
      served_.swap(served);
    }
    for (const auto& before : served) {  // What goes is freed once the last request has it no more.
      if (Find(before.first) == nullptr) {
        LogInfo("version ", before.first, " is no longer used");
      }
    }
  }

  const Options options_;
  ByNumber looked_at_;  // Of the thread alone.
  mutable absl::Mutex mutex_;
  ByNumber served_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  WakeableSleep sleep_;
  std::thread thread_;  // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_VERSION_WATCH_H_
