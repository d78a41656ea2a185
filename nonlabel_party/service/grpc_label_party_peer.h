// The label party over gRPC.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVICE_GRPC_LABEL_PARTY_PEER_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVICE_GRPC_LABEL_PARTY_PEER_H_

#include <cstddef>
#include <functional>
#include <grpcpp/channel.h>
#include <memory>
#include <vector>

#include "common/process/steady_time.h"
#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/alignment.grpc.pb.h"
#include "splitveil/v1/attribute_audit.grpc.pb.h"
#include "splitveil/v1/leak_audit.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {

// Every unary call has a deadline: the agreed step_seconds, but alignment_chunk_seconds for Start, and the longer of
// both for the Close of a complete run. Every message of a stream has a watchdog of its own. Errors of every method:
// DeadlineExceeded if nothing came in time, Unavailable if the connection was lost, else the label party's status,
// marked as its refusal (FromGrpcStatus). Not thread-safe, but for an alignment stream's two directions.
class GrpcLabelPartyPeer final : public LabelPartyPeer {
 public:
  // The channel for a call that begins now.
  using Channels = std::function<std::shared_ptr<grpc::Channel>()>;

  // `channels`: called for each call, so that a new one uses a renewed certificate (ReloadedChannel). `agreement`:
  // canonical and valid. A training stream holds unread messages up to the size of all answers in flight.
  GrpcLabelPartyPeer(Channels channels, const v1::RunAgreement& agreement);

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request) override;
  absl::StatusOr<std::unique_ptr<AlignmentStream>> Align() override;
  absl::StatusOr<std::vector<v1::MeasureLinkResponse>> MeasureLink(const v1::MeasureLinkRequest& request,
                                                                   int calls) override;
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request) override;
  absl::StatusOr<std::unique_ptr<TrainingStream>> Train() override;
  absl::StatusOr<std::unique_ptr<EvaluationStream>> Evaluate() override;
  absl::StatusOr<std::unique_ptr<EmbeddingStream>> EmbedAuxiliary() override;
  absl::StatusOr<std::unique_ptr<GuessStream>> GuessAttributes(const v1::GuessAttributesRequest& request) override;
  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request) override;
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) override;
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request) override;
  absl::Status Close(const v1::CloseRequest& request) override;

 private:
  // Deadline of a call that begins now: step_seconds from now.
  SteadyTime StepDeadline() const;
  // Limit of calls in which the label party works on all examples: the longer of step_seconds and
  // alignment_chunk_seconds.
  absl::Duration LongLimit() const;
  // A call outlives its stub, so each gets a new one on the current channel.
  std::unique_ptr<v1::SplitTraining::Stub> Training() const { return v1::SplitTraining::NewStub(channels_()); }
  std::unique_ptr<v1::LeakAudit::Stub> Audit() const { return v1::LeakAudit::NewStub(channels_()); }

  const v1::Deadlines deadlines_;
  const size_t unread_bytes_;
  const Channels channels_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVICE_GRPC_LABEL_PARTY_PEER_H_
