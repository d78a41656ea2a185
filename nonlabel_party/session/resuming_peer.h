// The label party, lost connections ridden out.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_RESUMING_PEER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_RESUMING_PEER_H_

#include <memory>
#include <vector>

#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/reconnector.h"

namespace splitveil {

// Makes a call again that found the connection lost; the label party answers a repeated call as it did before. A
// training stream that breaks is opened once more: all batches that are not answered as a whole are sent again, the
// same bytes, and what has come of their answers before is skipped. For that it keeps the activations in flight.
//
// Not made again: Align, Evaluate, EmbedAuxiliary and GuessAttributes, whose streams are the caller's to repeat; Close
// of a run that is given up, or that says goodbye. Not thread-safe.
class ResumingPeer final : public LabelPartyPeer {
 public:
  // Not owned; both must outlive this and its streams.
  ResumingPeer(LabelPartyPeer* peer, Reconnector* reconnector) : peer_(peer), reconnector_(reconnector) {}

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request) override;
  absl::StatusOr<std::unique_ptr<AlignmentStream>> Align() override { return peer_->Align(); }
  absl::StatusOr<std::vector<v1::MeasureLinkResponse>> MeasureLink(const v1::MeasureLinkRequest& request,
                                                                   int calls) override;
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request) override;
  absl::StatusOr<std::unique_ptr<TrainingStream>> Train() override;
  absl::StatusOr<std::unique_ptr<EvaluationStream>> Evaluate() override { return peer_->Evaluate(); }
  absl::StatusOr<std::unique_ptr<EmbeddingStream>> EmbedAuxiliary() override { return peer_->EmbedAuxiliary(); }
  absl::StatusOr<std::unique_ptr<GuessStream>> GuessAttributes(const v1::GuessAttributesRequest& request) override {
    return peer_->GuessAttributes(request);
  }
  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request) override;
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) override;
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request) override;
  absl::Status Close(const v1::CloseRequest& request) override;

 private:
  LabelPartyPeer* const peer_;
  Reconnector* const reconnector_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_RESUMING_PEER_H_
