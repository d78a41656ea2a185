#include "nonlabel_party/session/reconnector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"

namespace splitveil {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
constexpr absl::Duration kStopPeriod = absl::Milliseconds(100);  // Between two questions whether to stop.

}  // namespace

void Reconnector::Lost(const absl::Status& lost) {
  if (since_.has_value()) {
    return;
  }
  since_ = SteadyNow();
  pause_ = kFirstPause;
  LogWarning("the connection to the label party is lost: ", lost.message());
}

absl::Status Reconnector::AwaitReturn(const absl::Status& lost) {
  if (!options_.reach || options_.max_outage <= absl::ZeroDuration()) {
    return lost;
  }
  Lost(lost);
  const SteadyTime deadline = SteadyAfter(options_.max_outage, *since_);
  Pause(deadline);
  SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
  if (SteadyNow() >= deadline) {
    return GiveUp(lost);
  }
  absl::Status reached = options_.reach(deadline);
  if (reached.ok()) {
    return reached;
  }
  SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
  return absl::IsUnavailable(reached) ? GiveUp(reached) : reached;
}

absl::Status Reconnector::Reached() {
  if (!since_.has_value()) {
    return absl::OkStatus();
  }
  const std::string detail = absl::StrFormat("%.1f s without the label party", SecondsSince(*since_));
  since_.reset();
  LogInfo("connected again after ", detail);
  return options_.record ? options_.record("interrupted", detail) : absl::OkStatus();
}

absl::Status Reconnector::Waited(double seconds) {
  if (!answers_.IsStall(seconds)) {
    return absl::OkStatus();
  }
  const std::string detail = absl::StrFormat("%.1f s without the label party, the connection held", seconds);
  LogInfo("it goes on after ", detail);
  return options_.record ? options_.record("stalled", detail) : absl::OkStatus();
}

void Reconnector::Pause(SteadyTime deadline) {
  const SteadyTime end = std::min(SteadyAfter(Jittered(pause_)), deadline);
  while (SteadyNow() < end && !options_.stop->Asked()) {
    absl::SleepFor(std::min(absl::FromChrono(end - SteadyNow()), kStopPeriod));
  }
  pause_ = std::min(2 * pause_, kLongestPause);
}

absl::Status Reconnector::GiveUp(const absl::Status& lost) {
  const std::string detail = absl::StrFormat("%.1f s without the label party, given up", SecondsSince(*since_));
  SPLITVEIL_RETURN_IF_ERROR(options_.record ? options_.record("interrupted", detail) : absl::OkStatus());
  given_up_ = absl::UnavailableError(absl::StrCat("the label party: expected it back within ",
                                                  absl::FormatDuration(options_.max_outage),
                                                  " (deadlines.max_outage_seconds): ", lost.message()));
  return given_up_;
}

}  // namespace splitveil
