#include "label_party/serving/live_peer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/tensor_codec.h"

#include "splitveil/v1/live.grpc.pb.h"

namespace splitveil {
namespace {

// So that a peer that hangs does not make every request wait for its timeout.
constexpr absl::Duration kPause = absl::Seconds(1);
// Between two lines of the log: errors may come and go with each request.
constexpr absl::Duration kQuiet = absl::Seconds(1);

}  // namespace

LivePeer::LivePeer(const v1::LiveAnswers& config, const v1::RunAgreement& agreement, const TlsIdentity& identity,
                   int64_t max_rows)
    : config_(config),
      wire_dtype_(agreement.wire_dtype()),
      cut_width_(agreement.cut_width()),
      channel_(config.peer_address(), identity, MaxLiveBytes(agreement, max_rows)),
      metrics_(v1::LiveAnswers::Fallback_Name(config.fallback())) {}

absl::StatusOr<LivePeer::Answer> LivePeer::Ask(const v1::VersionHeader& version, absl::Span<const uint32_t> positions) {
  const SteadyTime begin = SteadyNow();
  absl::StatusOr<Answer> answer = absl::UnavailableError("the other party has just not answered in time");
  bool paused = false;
  {
    const absl::MutexLock lock(&mutex_);
    paused = begin < paused_until_;
  }
  if (!paused) {
    answer = Call(version, positions);
  }
  const absl::StatusCode code = answer.status().code();
  metrics_.Count(code, static_cast<int64_t>(positions.size()), SecondsSince(begin));
  if (paused) {
    return answer;
  }
  const absl::MutexLock lock(&mutex_);
  if (code == absl::StatusCode::kDeadlineExceeded) {
    paused_until_ = SteadyAfter(kPause);
  }
  if (latest_ != code && SteadyNow() >= quiet_until_) {
    latest_ = code;
    quiet_until_ = SteadyAfter(kQuiet);
    if (answer.ok()) {
      LogInfo("live: the other party answers");
    } else {
      LogWarning("live: ", answer.status().message(),
                 falls_back() ? "; stored activations answer meanwhile" : "; requests are refused meanwhile");
    }
  }
  return answer;
}

absl::Status LivePeer::Lacks(const v1::VersionHeader& version) {
  absl::Status status = Call(version, {}).status();
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ? status : absl::OkStatus();
}

absl::StatusOr<LivePeer::Answer> LivePeer::Call(const v1::VersionHeader& version,
                                                absl::Span<const uint32_t> positions) {
  v1::ActivateRequest request;
  request.set_run_id(version.run_id());
  request.mutable_positions()->Add(positions.begin(), positions.end());
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::ActivateResponse response,
                             CallUnary(v1::Live::NewStub(channel_.Get()), &v1::Live::Stub::Activate, request,
                                       SteadyAfter(absl::Milliseconds(config_.timeout_ms()))));
  return Read(response, version, static_cast<int64_t>(positions.size()));
}

absl::StatusOr<LivePeer::Answer> LivePeer::Read(const v1::ActivateResponse& response, const v1::VersionHeader& version,
                                                int64_t positions) const {
  // Activations of another model, or of other rows in these places, would give answers that look like any other.
  if (response.checkpoint() != version.checkpoint() || response.alignment() != version.alignment() ||
      version.alignment().empty()) {
    const bool by_model = response.checkpoint() != version.checkpoint();
    return absl::FailedPreconditionError(OneLine(absl::StrCat(
        "the other party has a different half of the version: expected ",
        by_model ? absl::StrCat("checkpoint ", version.checkpoint(), ", found ", response.checkpoint().substr(0, 200))
                 : absl::StrCat("alignment ", version.alignment(), ", found ", response.alignment().substr(0, 200)))));
  }
  Answer answer;
  answer.missing.assign(response.missing().begin(), response.missing().end());
  const auto missing = static_cast<int64_t>(answer.missing.size());
  if (missing > 0 && (std::adjacent_find(answer.missing.begin(), answer.missing.end(), std::greater_equal<>()) !=
                          answer.missing.end() ||
                      answer.missing.back() >= positions)) {
    return absl::InvalidArgumentError("missing: expected indices of positions, ascending, found others");
  }
  if (positions > missing) {
    SPLITVEIL_ASSIGN_OR_RETURN(answer.activations,
                               DecodeMatrix(response.activations(), {"activations", wire_dtype_, positions - missing,
                                                                     cut_width_, kCutMagnitudeLimit}));
  }
  return answer;
}

}  // namespace splitveil
