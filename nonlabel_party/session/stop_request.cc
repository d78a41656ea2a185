#include "nonlabel_party/session/stop_request.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace splitveil {
namespace {

// Soon enough for an operator, and no load.
constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

bool StopRequest::Asked() {
  if (!seen_ && stop_()) {
    seen_ = true;
  }
  return seen_;
}

absl::StatusOr<std::unique_ptr<StopWatcher>> StopWatcher::Create(StopRequest* stop, std::function<void()> cancel) {
  try {
    return std::unique_ptr<StopWatcher>(new StopWatcher(stop, std::move(cancel)));
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("the watch for a stop: no thread could be started: ", error.what()));
  }
}

StopWatcher::StopWatcher(StopRequest* stop, std::function<void()> cancel)
    : stop_(stop), cancel_(std::move(cancel)), thread_([this] { Watch(); }) {}

bool StopWatcher::Finish() {
  if (thread_.joinable()) {
    {
      const absl::MutexLock lock(&mutex_);
      finished_ = true;
    }
    sleep_.Wake();
    thread_.join();
  }
  const absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void StopWatcher::Watch() {
  while (true) {
    if (stop_->Asked()) {
      {
        const absl::MutexLock lock(&mutex_);
        cancelled_ = true;
      }
      cancel_();
      return;
    }
    sleep_.Until(SteadyAfter(kPeriod));
    const absl::MutexLock lock(&mutex_);
    if (finished_) {
      return;
    }
  }
}

}  // namespace splitveil
