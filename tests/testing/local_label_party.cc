#include "tests/testing/local_label_party.h"

#include <deque>
#include <thread>
#include <utility>

#include "common/status/status_macros.h"
#include "common/transport/client_call.h"
#include "tests/testing/alignment_channel_pair.h"

namespace splitveil::testing {
namespace {

// The status as the non-label party would see it after the wire.
absl::Status OverTheWire(const absl::Status& status) { return FromGrpcStatus(ToGrpcStatus(status)); }

template <typename Response>
absl::StatusOr<Response> Answer(absl::StatusOr<Response> answer, const std::function<void(Response&)>& alter) {
  if (!answer.ok()) {
    return OverTheWire(answer.status());
  }
  if (alter) {
    alter(*answer);
  }
  return answer;
}

class LocalAlignment final : public AlignmentStream {
 public:
  LocalAlignment(LabelSession* session, bool stalls)
      : pair_(64), thread_([this, session, stalls] {
          if (stalls) {
            while (pair_.second->Receive().ok()) {
            }
          }
          verdict_ = session->Align(*pair_.second);
          pair_.second->Close();
        }) {}
  ~LocalAlignment() override { (void)Finish(); }

  absl::Status Send(const v1::AlignmentMessage& message) override { return pair_.first->Send(message); }
  absl::StatusOr<v1::AlignmentMessage> Receive() override { return pair_.first->Receive(); }
  absl::Status Finish() override {
    if (thread_.joinable()) {
      thread_.join();
    }
    return OverTheWire(verdict_);
  }
  void Cancel() override { pair_.first->Close(); }

 private:
  absl::Status verdict_;
  AlignmentChannelPair pair_;
  std::thread thread_;
};

class LocalTraining final : public TrainingStream {
 public:
  LocalTraining(LabelSession* session, std::function<void(v1::CutGradients&)> alter,
                std::function<void(size_t)> on_answers)
      : session_(session), alter_(std::move(alter)), on_answers_(std::move(on_answers)) {}

  absl::Status Send(const v1::CutActivations& message) override {
    if (!verdict_.ok()) {
      return absl::UnavailableError("training: the label party has ended the stream");
    }
    const absl::StatusOr<SharedGradients> answer = session_->Train(message);
    verdict_ = answer.status();
    if (on_answers_ && answer.ok()) {
      on_answers_(answer->size());
    }
    if (!answer.ok()) {
      answers_.push_back(verdict_);
    } else if (!answer->empty()) {
      for (const auto& slice : *answer) {
        answers_.push_back(*slice);
      }
      verdict_ = session_->Learn();
    }
    return absl::OkStatus();
  }
  absl::StatusOr<v1::CutGradients> Receive() override {
    if (answers_.empty()) {
      return absl::UnavailableError("training: the label party has ended the stream");
    }
    absl::StatusOr<v1::CutGradients> answer = std::move(answers_.front());
    answers_.pop_front();
    return Answer(std::move(answer), alter_);
  }
  absl::Status Finish() override { return OverTheWire(verdict_); }

 private:
  LabelSession* session_;
  std::function<void(v1::CutGradients&)> alter_;
  std::function<void(size_t)> on_answers_;
  std::deque<absl::StatusOr<v1::CutGradients>> answers_;
  absl::Status verdict_;
};

class LocalEvaluation final : public EvaluationStream {
 public:
  LocalEvaluation(LabelSession* session, std::function<void(v1::EvaluateResponse&)> alter)
      : session_(session), alter_(std::move(alter)) {}

  absl::Status Send(const v1::CutActivations& message) override {
    verdict_ = session_->Evaluate(message, evaluation_);
    return verdict_;
  }
  absl::StatusOr<v1::EvaluateResponse> Finish() override {
    if (!verdict_.ok()) {
      return OverTheWire(verdict_);
    }
    return Answer(session_->FinishEvaluation(evaluation_), alter_);
  }

 private:
  LabelSession* session_;
  std::function<void(v1::EvaluateResponse&)> alter_;
  LabelSession::Evaluation evaluation_;
  absl::Status verdict_;
};

class LocalEmbedding final : public EmbeddingStream {
 public:
  LocalEmbedding(LabelSession* session, std::function<void(v1::EmbedAuxiliaryResponse&)> alter)
      : session_(session), alter_(std::move(alter)) {}

  absl::Status Send(const v1::CutActivations& message) override {
    verdict_ = session_->EmbedAuxiliary(message, embedding_);
    return verdict_;
  }
  absl::StatusOr<v1::EmbedAuxiliaryResponse> Finish() override {
    if (!verdict_.ok()) {
      return OverTheWire(verdict_);
    }
    return Answer(session_->FinishEmbedding(embedding_), alter_);
  }

 private:
  LabelSession* session_;
  std::function<void(v1::EmbedAuxiliaryResponse&)> alter_;
  LabelSession::Embedding embedding_;
  absl::Status verdict_;
};

class LocalGuesses final : public GuessStream {
 public:
  LocalGuesses(absl::Status verdict, std::vector<v1::AttributeGuesses> messages)
      : verdict_(std::move(verdict)), messages_(std::move(messages)) {}

  std::optional<v1::AttributeGuesses> Receive() override {
    return next_ == messages_.size() ? std::nullopt : std::optional<v1::AttributeGuesses>(messages_[next_++]);
  }
  absl::Status Finish() override { return OverTheWire(verdict_); }

 private:
  absl::Status verdict_;
  std::vector<v1::AttributeGuesses> messages_;
  size_t next_ = 0;
};

}  // namespace

void LocalLabelParty::Note(const char* call) {
  if (on_call) {
    on_call(call);
  }
}

absl::StatusOr<v1::OpenResponse> LocalLabelParty::Open(const v1::OpenRequest& request) {
  Note("Open");
  return Answer(session_->Open(request), alter_open);
}

absl::StatusOr<std::unique_ptr<AlignmentStream>> LocalLabelParty::Align() {
  Note("Align");
  return std::make_unique<LocalAlignment>(session_, stalls_alignment);
}

absl::StatusOr<std::vector<v1::MeasureLinkResponse>> LocalLabelParty::MeasureLink(const v1::MeasureLinkRequest& request,
                                                                                  int calls) {
  std::vector<v1::MeasureLinkResponse> answers;
  for (int i = 0; i < calls; ++i) {
    Note("MeasureLink");
    SPLITVEIL_ASSIGN_OR_RETURN(answers.emplace_back(), Answer(session_->MeasureLink(request), alter_measurement));
  }
  return answers;
}

absl::StatusOr<v1::StartResponse> LocalLabelParty::Start(const v1::StartRequest& request) {
  Note("Start");
  v1::StartRequest altered = request;
  if (alter_start_request) {
    alter_start_request(altered);
  }
  return Answer(session_->Start(altered), alter_start);
}

absl::StatusOr<std::unique_ptr<TrainingStream>> LocalLabelParty::Train() {
  Note("Train");
  return std::make_unique<LocalTraining>(session_, alter_gradients, on_answers);
}

absl::StatusOr<std::unique_ptr<EvaluationStream>> LocalLabelParty::Evaluate() {
  Note("Evaluate");
  return std::make_unique<LocalEvaluation>(session_, alter_evaluation);
}

absl::StatusOr<std::unique_ptr<EmbeddingStream>> LocalLabelParty::EmbedAuxiliary() {
  Note("EmbedAuxiliary");
  return std::make_unique<LocalEmbedding>(session_, alter_embedding);
}

absl::StatusOr<std::unique_ptr<GuessStream>> LocalLabelParty::GuessAttributes(
    const v1::GuessAttributesRequest& request) {
  Note("GuessAttributes");
  const absl::StatusOr<SharedGuesses> guesses = session_->GuessAttributes(request);
  std::vector<v1::AttributeGuesses> messages = guesses.ok() ? **guesses : std::vector<v1::AttributeGuesses>();
  if (alter_guesses) {
    alter_guesses(messages);
  }
  return std::make_unique<LocalGuesses>(guesses.status(), std::move(messages));
}

absl::StatusOr<v1::ScoreBatchResponse> LocalLabelParty::ScoreBatch(const v1::ScoreBatchRequest& request) {
  return Answer(session_->ScoreBatch(request), alter_leaks);
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> LocalLabelParty::AuxiliaryLabels(
    const v1::AuxiliaryLabelsRequest& request) {
  Note("AuxiliaryLabels");
  return Answer(session_->AuxiliaryLabels(request), alter_auxiliary);
}

absl::StatusOr<v1::ScoreExamplesResponse> LocalLabelParty::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  Note("ScoreExamples");
  return Answer<v1::ScoreExamplesResponse>(session_->ScoreExamples(request), nullptr);
}

absl::Status LocalLabelParty::Close(const v1::CloseRequest& request) {
  Note(request.completed() ? "Close" : "Close early");
  return OverTheWire(session_->Close(request));
}

}  // namespace splitveil::testing
