// The versions that can be asked for, while a folder gets new ones.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_VERSION_WATCH_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_VERSION_WATCH_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "label_party/serving/served_version.h"

namespace splitveil {

// Looks at the folder in a thread of its own. A new version is opened and checked beside the one in use; requests take
// one or the other, never a part of both, and keep what they have taken. A version that is damaged or does not fit is
// logged once and not used before its files change; one that is removed is no longer used, so that the one before it is
// the latest again. Thread-safe.
class VersionWatch {
 public:
  static constexpr size_t kServed = 2;  // The latest.

  // Opens what is there before it returns. Without a thread left it sees no new versions, and the log says so.
  VersionWatch(ServedVersion::Training training, std::string folder, absl::Duration period = absl::Seconds(1));
  ~VersionWatch();
  VersionWatch(const VersionWatch&) = delete;
  VersionWatch& operator=(const VersionWatch&) = delete;

  // The latest, or that of this number; null where there is none.
  std::shared_ptr<ServedVersion> Find(std::optional<int64_t> number = std::nullopt) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Ascending.
  std::vector<int64_t> Numbers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Served {
    std::string stamp;
    std::shared_ptr<ServedVersion> version;  // Null: it cannot be used.
  };
  void Run();
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

  const ServedVersion::Training training_;
  const std::string folder_;
  const absl::Duration period_;
  std::map<int64_t, Served> looked_at_;  // Of the thread alone.
  mutable absl::Mutex mutex_;
  std::map<int64_t, Served> served_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  WakeableSleep sleep_;
  std::thread thread_;  // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_VERSION_WATCH_H_
