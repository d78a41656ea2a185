#include "nonlabel_party/session/stop_request.h"

#include "absl/strings/cord.h"

namespace splitveil {
namespace {

constexpr char kStoppedPayloadUrl[] = "splitveil/stopped-on-request";

}  // namespace

bool StopRequest::Asked() {
  if (!seen_ && stop_()) {
    seen_ = true;
  }
  return seen_;
}

absl::Status StopRequest::StoppedOnRequest() {
  absl::Status status = absl::CancelledError("stopped on request");
  status.SetPayload(kStoppedPayloadUrl, absl::Cord());
  return status;
}

bool StopRequest::IsStoppedOnRequest(const absl::Status& status) {
  return absl::IsCancelled(status) && status.GetPayload(kStoppedPayloadUrl).has_value();
}

}  // namespace splitveil
