#include "common/transport/listener_watch.h"

#include <system_error>
#include <utility>

#include "common/telemetry/log.h"

namespace splitveil {

ListenerWatch::ListenerWatch(int port, absl::Duration period, std::function<absl::Status()> check)
    : port_(port), period_(period), check_(std::move(check)) {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    LogWarning("port ", port_, " is not watched: no thread could be started: ", error.what());
  }
}

ListenerWatch::~ListenerWatch() {
  stopping_ = true;
  sleep_.Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ListenerWatch::Run() {
  bool accepted = true;
  while (true) {
    sleep_.Until(SteadyAfter(period_));
    if (stopping_) {
      return;
    }
    const absl::Status status = check_();
    if (!status.ok() && accepted) {
      LogWarning("port ", port_, " no longer accepts connections: ", status.message(),
                 "; a peer that loses its connection does not find back: see who holds connections to this port, and "
                 "what limits this process");
    } else if (status.ok() && !accepted) {
      LogInfo("port ", port_, " accepts connections again");
    }
    accepted = status.ok();
  }
}

}  // namespace splitveil
