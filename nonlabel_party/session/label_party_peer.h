// The label party as the session sees it: calls and streams, free of gRPC, so that a whole run also goes through
// memory.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_LABEL_PARTY_PEER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_LABEL_PARTY_PEER_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"

#include "splitveil/v1/attribute_audit.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// One epoch's Train stream. Send and Receive come from one thread.
class TrainingStream {
 public:
  virtual ~TrainingStream() = default;
  virtual absl::Status Send(const v1::CutActivations& message) = 0;
  // Waits at most the agreed step deadline: DeadlineExceeded past it.
  virtual absl::StatusOr<v1::CutGradients> Receive() = 0;
  // Closes the stream; the label party's verdict on it.
  virtual absl::Status Finish() = 0;
};

// Activations of many examples out, one answer back.
template <typename Response>
class UploadStream {
 public:
  virtual ~UploadStream() = default;
  virtual absl::Status Send(const v1::CutActivations& message) = 0;
  virtual absl::StatusOr<Response> Finish() = 0;
};
using EvaluationStream = UploadStream<v1::EvaluateResponse>;
using EmbeddingStream = UploadStream<v1::EmbedAuxiliaryResponse>;

// One Align stream.
class AlignmentStream : public AlignmentChannel {
 public:
  virtual absl::Status Finish() = 0;
  // From any thread: calls under way, and later ones, fail soon.
  virtual void Cancel() = 0;
};

// The calls by which a run begins and ends. As all of a peer's: not thread-safe; every call has a deadline; errors the
// label party decided on satisfy RefusedByPeer().
class RunPeer {
 public:
  virtual ~RunPeer() = default;
  virtual absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request) = 0;
  virtual absl::StatusOr<std::unique_ptr<AlignmentStream>> Align() = 0;
  // The answers to so many calls alike, all under way at once; `calls`: at least 1.
  virtual absl::StatusOr<std::vector<v1::MeasureLinkResponse>> MeasureLink(const v1::MeasureLinkRequest& request,
                                                                           int calls) = 0;
  virtual absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request) = 0;
  virtual absl::Status Close(const v1::CloseRequest& request) = 0;
};

// The streams of an epoch.
class TrainingPeer {
 public:
  virtual ~TrainingPeer() = default;
  virtual absl::StatusOr<std::unique_ptr<TrainingStream>> Train() = 0;
  virtual absl::StatusOr<std::unique_ptr<EvaluationStream>> Evaluate() = 0;
};

// The leak audit: the attacks' scores, and what the agreement discloses to them.
class AuditPeer {
 public:
  virtual ~AuditPeer() = default;
  virtual absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request) = 0;
  virtual absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) = 0;
  virtual absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request) = 0;
};

// One GuessAttributes stream.
class GuessStream {
 public:
  virtual ~GuessStream() = default;
  // The next message; nullopt where there is none any more: Finish says why. Waits longer than for a step, since the
  // label party's attacks learn before the first.
  virtual std::optional<v1::AttributeGuesses> Receive() = 0;
  // The label party's verdict. Messages that have not been received are dropped.
  virtual absl::Status Finish() = 0;
};

// The label party's attacks on attributes: what it is shown for them, and its guesses.
class AttributeAuditPeer {
 public:
  virtual ~AttributeAuditPeer() = default;
  virtual absl::StatusOr<std::unique_ptr<EmbeddingStream>> EmbedAuxiliary() = 0;
  virtual absl::StatusOr<std::unique_ptr<GuessStream>> GuessAttributes(const v1::GuessAttributesRequest& request) = 0;
};

// The whole of it; who needs a part takes the part.
class LabelPartyPeer : public RunPeer, public TrainingPeer, public AuditPeer, public AttributeAuditPeer {};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_LABEL_PARTY_PEER_H_
