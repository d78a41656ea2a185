#include "nonlabel_party/serving/live_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/client_call.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

grpc::Status LiveService::Activate(grpc::ServerContext* /*context*/, const v1::ActivateRequest* request,
                                   v1::ActivateResponse* response) {
  const CallLimit::Slot slot(&calls_);
  if (!slot.granted()) {
    metrics_->Count(absl::StatusCode::kResourceExhausted, request->positions_size(), /*seconds=*/0);
    return slot.Refusal("Activate");
  }
  const SteadyTime begin = SteadyNow();
  ++under_way_;
  const absl::Status status =
      stopping_ ? absl::UnavailableError("the server is stopping") : Answer(*request, *response);
  --under_way_;
  metrics_->Count(status.code(), request->positions_size(), SecondsSince(begin));
  return ToGrpcStatus(status);
}

absl::Status LiveService::Answer(const v1::ActivateRequest& request, v1::ActivateResponse& response) const {
  if (request.positions_size() > options_.max_rows) {
    return absl::InvalidArgumentError(absl::StrCat("positions: expected at most ", options_.max_rows, ", found ",
                                                   request.positions_size(),
                                                   ": raise max_rows, or lower the label party's max_batch_rows"));
  }
  std::shared_ptr<LiveVersion> version;
  for (const int64_t number : versions_->Numbers()) {
    // Each party counts its versions by itself; the run has made both halves.
    if (std::shared_ptr<LiveVersion> each = versions_->Find(number);
        each != nullptr && each->header().run_id() == request.run_id()) {
      version = std::move(each);
    }
  }
  if (version == nullptr) {
    return absl::NotFoundError(
        "the other party has no half of this version that fits its data: it has to be stored there, too");
  }
  response.set_checkpoint(version->header().checkpoint());
  response.set_alignment(version->header().alignment());
  SPLITVEIL_ASSIGN_OR_RETURN(const LiveVersion::Answer answer, version->Activate(request.positions()));
  response.mutable_missing()->Add(answer.missing.begin(), answer.missing.end());
  return answer.activations.rows() == 0
             ? absl::OkStatus()
             : EncodeMatrix(answer.activations, options_.wire_dtype, *response.mutable_activations());
}

}  // namespace splitveil
