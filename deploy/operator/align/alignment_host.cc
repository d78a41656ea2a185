#include "deploy/operator/align/alignment_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/config/message_validator.h"
#include "common/operations/operator_server.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/server.h"

#include "splitveil/v1/alignment.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {
namespace {

// The calls of a run that an alignment needs; gRPC answers all others with UNIMPLEMENTED.
class OpenService final : public v1::SplitTraining::Service {
 public:
  explicit OpenService(AlignmentHost* host) : host_(host) {}

  grpc::Status Open(grpc::ServerContext* /*context*/, const v1::OpenRequest* request,
                    v1::OpenResponse* response) override {
    absl::StatusOr<v1::OpenResponse> answer = host_->Open(*request);
    if (!answer.ok()) {
      return ToGrpcStatus(answer.status());
    }
    *response = *std::move(answer);
    return grpc::Status::OK;
  }

 private:
  AlignmentHost* const host_;
};

class AlignService final : public v1::Alignment::Service {
 public:
  explicit AlignService(AlignmentHost* host) : host_(host) {
    MarkMethodStreamed(AlignmentStreamChannel::kMethod, new AlignmentStreamChannel::Handler<AlignService>(
                                                            [](AlignService* service, grpc::ServerContext* /*context*/,
                                                               AlignmentStreamChannel::Stream* stream) {
                                                              AlignmentStreamChannel channel(stream);
                                                              return ToGrpcStatus(service->host_->Align(channel));
                                                            },
                                                            this));
  }

 private:
  AlignmentHost* const host_;
};

}  // namespace

absl::Status CountAttempt(const AlignmentSide& side, const std::string& run_id) {
  const absl::Status counted =
      RecordAlignment(side.party.ledger_path(), run_id, side.attempt, side.party.max_alignments());
  return absl::IsResourceExhausted(counted) ? AsRefusal(counted) : counted;
}

absl::StatusOr<FinishedAlignment> AlignCounted(const AlignmentSide& side, const std::string& run_id, RunStatus* status,
                                               const std::function<void()>& heard, AlignmentChannel& channel) {
  AlignmentOptions options =
      AgreedAlignment(side.agreement.alignment(), side.party, IdentitySha256(side.identity), run_id);
  AlignmentProgress progress(status);
  options.progress = [&](uint64_t masked, uint64_t total, int64_t bytes) {
    progress.Report(masked, total, bytes);
    heard();
  };
  const SteadyTime begun = SteadyNow();
  absl::StatusOr<AlignedIds> aligned = AlignIds(side.ids, options, channel);
  progress.Finish();
  SPLITVEIL_RETURN_IF_ERROR(aligned.status());
  return FinishedAlignment{*std::move(aligned), SecondsSince(begun)};
}

AlignmentHost::AlignmentHost(const AlignmentSide* side, RunStatus* status)
    : side_(*side), status_(status), last_heard_(SteadyNow()) {}

absl::Status AlignmentHost::Refuse(const std::string& message) {
  absl::Status refusal = AsRefusal(absl::FailedPreconditionError(message));
  outcome_ = refusal;
  ended_.Wake();
  return refusal;
}

absl::StatusOr<v1::OpenResponse> AlignmentHost::Open(const v1::OpenRequest& request) {
  const absl::MutexLock lock(&mutex_);
  if (!run_id_.empty() || outcome_.has_value()) {
    return absl::FailedPreconditionError(
        "Open: one alignment has started already; start `splitveil align` again for the next");
  }
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  const std::string difference = FirstDifference(side_.agreement, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(side_.agreement))) {
    return Refuse(absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference));
  }
  if (!request.seed_commitment().empty()) {
    return Refuse("expected a peer that aligns only (`splitveil align`), found one that wants to train");
  }
  run_id_ = NewRunId(side_.agreement.run_name());
  last_heard_ = SteadyNow();
  v1::OpenResponse response;
  response.set_run_id(run_id_);
  response.set_version(Version());
  return response;
}

absl::Status AlignmentHost::Align(AlignmentChannel& channel) {
  std::string run_id;
  {
    const absl::MutexLock lock(&mutex_);
    if (run_id_.empty() || begun_ || outcome_.has_value()) {
      return absl::FailedPreconditionError("Align is allowed once, directly after Open");
    }
    begun_ = true;
    run_id = run_id_;
  }
  const auto heard = [this] {
    const absl::MutexLock lock(&mutex_);
    last_heard_ = SteadyNow();
  };
  const absl::Status counted = CountAttempt(side_, run_id);
  absl::StatusOr<FinishedAlignment> finished =
      counted.ok() ? AlignCounted(side_, run_id, status_, heard, channel) : counted;
  const absl::MutexLock lock(&mutex_);
  if (outcome_.has_value()) {
    return absl::CancelledError("the label party has ended the alignment");
  }
  outcome_ = std::move(finished);
  ended_.Wake();
  // Which file of this party's cannot be written is not the peer's to know.
  return counted.ok() || absl::IsResourceExhausted(counted)
             ? outcome_->status()
             : absl::InternalError("the label party failed; its own log says why");
}

bool AlignmentHost::EndIfDue() {
  const absl::MutexLock lock(&mutex_);
  const v1::Deadlines& deadlines = side_.agreement.deadlines();
  const absl::Duration limit =
      absl::Seconds(run_id_.empty() ? deadlines.connect_seconds() : deadlines.alignment_chunk_seconds());
  if (!outcome_.has_value() && SteadyNow() > SteadyAfter(limit, last_heard_)) {
    outcome_ = absl::UnavailableError(
        absl::StrCat("the non-label party was not heard within ", absl::FormatDuration(limit), ": it is silent"));
  }
  return outcome_.has_value();
}

absl::StatusOr<FinishedAlignment> AlignmentHost::WaitUntilEnded() {
  while (!EndIfDue()) {
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
  const absl::MutexLock lock(&mutex_);
  return *std::move(outcome_);
}

absl::StatusOr<FinishedAlignment> HostAlignment(const AlignmentSide& side, const std::string& listen_address) {
  RunStatus status("label_party");
  AlignmentHost host(&side, &status);
  OpenService open(&host);
  AlignService align(&host);
  OperationsService operations(&status);
  SPLITVEIL_ASSIGN_OR_RETURN(
      const RunningServer running,
      StartServer({listen_address, MaxMessageBytes(side.agreement), {&open, &align, &operations}}, side.identity));
  LogInfo("label party listens on port ", running.port);
  absl::StatusOr<FinishedAlignment> finished = host.WaitUntilEnded();
  running.server->Shutdown(GrpcDeadline(SteadyAfter(absl::Seconds(2))));  // Until the last answer is sent.
  return finished;
}

}  // namespace splitveil
