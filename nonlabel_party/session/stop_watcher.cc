#include "nonlabel_party/session/stop_watcher.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr std::chrono::milliseconds kPeriod(100);

}  // namespace

absl::StatusOr<std::unique_ptr<StopWatcher>> StopWatcher::Create(bool (*stop)(), std::function<void()> cancel) {
  try {
    return std::unique_ptr<StopWatcher>(new StopWatcher(stop, std::move(cancel)));
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("the watch for a stop: no thread could be started: ", error.what()));
  }
}

StopWatcher::StopWatcher(bool (*stop)(), std::function<void()> cancel)
    : stop_(stop), cancel_(std::move(cancel)), thread_([this] { Watch(); }) {}

bool StopWatcher::Finish() {
  if (thread_.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      finished_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  return cancelled_;
}

void StopWatcher::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!finished_) {
    if (stop_()) {
      lock.unlock();
      cancelled_ = true;
      cancel_();
      return;
    }
    changed_.wait_for(lock, kPeriod);
  }
}

}  // namespace splitveil
