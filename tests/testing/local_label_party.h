// The label party in the same process: a whole run through memory, every message still encoded and decoded.
#ifndef SPLITVEIL_TESTS_TESTING_LOCAL_LABEL_PARTY_H_
#define SPLITVEIL_TESTS_TESTING_LOCAL_LABEL_PARTY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "label_party/session/label_session.h"
#include "nonlabel_party/session/label_party_peer.h"

namespace splitveil::testing {

// Hands each message to the session, as the gRPC adapter does, and answers with what it says. A test may alter what
// passes.
class LocalLabelParty final : public LabelPartyPeer {
 public:
  // `session`: not owned; must outlive this.
  explicit LocalLabelParty(LabelSession* session) : session_(session) {}

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

  // Called on what the label party answers, before the non-label party sees it. May be empty.
  std::function<void(v1::OpenResponse&)> alter_open;
  std::function<void(v1::MeasureLinkResponse&)> alter_measurement;
  std::function<void(v1::StartResponse&)> alter_start;
  std::function<void(v1::CutGradients&)> alter_gradients;
  std::function<void(v1::EvaluateResponse&)> alter_evaluation;
  std::function<void(v1::ScoreBatchResponse&)> alter_leaks;
  std::function<void(v1::EmbedAuxiliaryResponse&)> alter_embedding;
  std::function<void(std::vector<v1::AttributeGuesses>&)> alter_guesses;
  std::function<void(v1::AuxiliaryLabelsResponse&)> alter_auxiliary;
  // Called on what the non-label party asks for, before the label party sees it. May be empty.
  std::function<void(v1::StartRequest&)> alter_start_request;
  // Told the name of each call but ScoreBatch, before it is answered. May be empty.
  std::function<void(const std::string&)> on_call;
  // Told, after each slice of activations, how many messages have come in answer to it. May be empty.
  std::function<void(size_t)> on_answers;
  bool stalls_alignment = false;  // Says nothing in it until the stream is cancelled.

 private:
  void Note(const char* call);

  LabelSession* session_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_LOCAL_LABEL_PARTY_H_
