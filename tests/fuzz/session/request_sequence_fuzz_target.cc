#include "tests/fuzz/session/request_sequence_fuzz_target.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <google/protobuf/stubs/logging.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "common/config/agreement.h"
#include "common/dataset/dataset.h"
#include "common/schedule/schedule.h"
#include "common/transport/tensor_codec.h"
#include "label_party/session/label_session.h"
#include "label_party/session/run.h"
#include "tests/testing/peer_messages.h"
#include "tests/testing/small_run.h"

namespace splitveil {
namespace {

constexpr int kExamples = 30;  // Three batches an epoch.
constexpr int64_t kBatch = 8;
constexpr int kMostRequests = 200;
constexpr uint32_t kRequests = 14, kTrain = 12;  // Kinds; two of them are batches.

void Require(bool promise) {
  if (!promise) {
    std::abort();
  }
}

// An answer, a refusal, or that there is no run yet or nothing left to ask for.
void RequireVerdict(const absl::Status& status) {
  if (!status.ok() && !IsRefusal(status) && !absl::IsAborted(status) && !absl::IsResourceExhausted(status)) {
    std::fprintf(stderr, "no verdict: %s\n", status.ToString().c_str());
    std::abort();
  }
}

// What an honest peer asks for.
void RequireOk(const absl::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "refused an honest peer: %s\n", status.ToString().c_str());
    std::abort();
  }
}

// The input, from its front; zeros once it is used up.
class Script {
 public:
  Script(const uint8_t* bytes, size_t size) : bytes_(reinterpret_cast<const char*>(bytes), size) {}

  bool used_up() const { return bytes_.empty(); }
  uint8_t Byte() {
    if (bytes_.empty()) {
      return 0;
    }
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  uint32_t Below(uint32_t limit) { return Byte() % limit; }
  absl::string_view Take(size_t length) {
    const absl::string_view taken = bytes_.substr(0, length);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  // `honest`, or with up to three of its bits changed, or another message altogether, that the script spells out.
  template <typename Message>
  Message Any(const Message& honest) {
    const uint32_t kind = Below(5);
    Message any;
    if (kind == 4) {
      return any.ParseFromString(std::string(Take(Byte()))) ? any : honest;
    }
    std::string bytes = honest.SerializeAsString();
    for (uint32_t edit = 0; edit < kind && !bytes.empty(); ++edit) {
      const size_t at = 256U * Byte() + Byte();
      bytes[at % bytes.size()] ^= static_cast<char>(1U << Below(8));
    }
    return any.ParseFromString(bytes) ? any : honest;
  }

 private:
  absl::string_view bytes_;
};

// The session, its honest peer, and others that speak in this one's name. What is accepted counts, no matter which has
// sent it.
class FuzzedSession {
 public:
  explicit FuzzedSession(Script& script) : script_(script), run_(kExamples) {
    run_.agreement.set_batch_size(kBatch);
    run_.agreement.set_minimum_batch_size(4);
    run_.noise_key = {7};
    if (script.Below(2) == 1) {
      run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
    }
    attributes_ = script.Below(2) == 1;
    if (attributes_) {
      run_.AttackAttributes();
    }
    run_.agreement.mutable_audit()->set_auxiliary_labels(script.Below(2) == 1 ? 4 : 0);
    if (script.Below(2) == 1) {
      run_.agreement.set_in_flight_batches(0);  // The peer measures the link and chooses one.
    }
    Canonicalize(run_.agreement);
    absl::StatusOr<std::unique_ptr<LabelSession>> session = LabelSession::Create(run_.LabelOptions());
    Require(session.ok());
    session_ = *std::move(session);
    absl::StatusOr<SeedExchange> seed = SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 's'));
    Require(seed.ok());
    seed_ = std::make_unique<SeedExchange>(*std::move(seed));
  }

  // Whether the run is complete, or the peer has given it up.
  bool over() const { return closed_ || given_up_; }

  // The honest peer's next request; all of a stream.
  void Advance() {
    if (!opened_) {
      Serve(Open(OpenRequest()));
    } else if (aligned_.rows.empty()) {
      absl::StatusOr<AlignedIds> aligned = testing::AlignWith(*session_, run_, run_id_);
      RequireOk(aligned.status());
      aligned_ = *std::move(aligned);
    } else if (schedule_ == nullptr) {
      Serve(Start(StartRequest()));
    } else if (audit_due_ == Audit::kEmbed) {
      Embed();
    } else if (audit_due_ == Audit::kGuess) {
      Serve(Guess(GuessRequest()));
    } else if (epoch() < run_.agreement.epochs() && batch() < schedule_->batches_per_epoch()) {
      Serve(Train(Activations(batch_rows(), batch())));
    } else if (epoch() < run_.agreement.epochs()) {
      Evaluate();
    } else {
      Serve(Close(CloseRequest()));
    }
  }

  // Another request, as the script says.
  void SendAny() {
    const uint32_t kind = script_.Below(kRequests);
    const absl::Status status = Send(kind);
    if (status.ok()) {
      outcome_.answered.insert(static_cast<int>(kind));
    }
    foreign_batch_ |= status.ok() && kind >= kTrain;
    if (!HasDiverged(status)) {
      RequireVerdict(status);
    }
  }

  // A complete run has trained every batch once.
  SequenceOutcome End() {
    if (!given_up_) {
      RequireOk(session_->WaitUntilEnded([] { return false; }));
      Require(session_->figures()->steps ==
              static_cast<int64_t>(run_.agreement.epochs() * schedule_->batches_per_epoch()));
    }
    outcome_.completed = !given_up_;
    return outcome_;
  }

 private:
  absl::Status Send(uint32_t kind) {
    switch (kind) {
      case 0:
        return Open(MayEndTheRun(OpenRequest()));
      case 1:
        return Start(MayEndTheRun(StartRequest()));
      case 2:
        return session_->Evaluate(AnyActivations(epoch(), evaluation_.next_batch, test_examples_), evaluation_);
      case 3:
        return FinishEvaluation();
      case 4:
        return session_->ScoreBatch(script_.Any(Scores())).status();
      case 5:
        return session_->AuxiliaryLabels(script_.Any(Named<v1::AuxiliaryLabelsRequest>())).status();
      case 6:
        return session_->ScoreExamples(script_.Any(ExampleScores())).status();
      case 7:
        return session_->EmbedAuxiliary(AnyActivations(epoch() - 1, embedding_.next_batch, auxiliary_examples_),
                                        embedding_);
      case 8:
        return FinishEmbedding();
      case 9:
        return Guess(script_.Any(GuessRequest()));
      case 10:
        return session_->MeasureLink(script_.Any(Named<v1::MeasureLinkRequest>())).status();
      case 11:
        return Close(script_.Any(CloseRequest()));
      default:
        return Train(AnyActivations(epoch(), batch(), kBatch * batch() + batch_rows()));
    }
  }

  // What the next batch is.
  uint32_t epoch() const { return evaluated_; }
  uint32_t batch() const { return batch_; }
  int64_t batch_rows() const {
    return schedule_ == nullptr || batch_ >= schedule_->batches_per_epoch() ? kBatch : schedule_->batch_rows(batch_);
  }

  // As `honest` most of the time: of these requests most others are taken for another agreement or alignment, which
  // ends the run and the sequence.
  template <typename Request>
  Request MayEndTheRun(const Request& honest) {
    return script_.Below(16) == 15 ? script_.Any(honest) : honest;
  }
  // A batch of anybody's numbers that was accepted may make the training diverge, which ends it.
  bool HasDiverged(const absl::Status& status) {
    const bool diverged = foreign_batch_ && absl::IsInternal(status) &&
                          absl::StrContains(session_->WaitUntilEnded([] { return false; }).message(), "diverged");
    given_up_ |= diverged;
    return diverged;
  }
  // What an honest peer asks for.
  void Serve(const absl::Status& status) {
    if (!HasDiverged(status)) {
      RequireOk(status);
    }
  }
  // Whether the session has ended the run: it says so to whatever is asked.
  bool IsEnded() const { return absl::IsCancelled(session_->Close(v1::CloseRequest())); }

  template <typename Request>
  Request Named() const {
    Request request;
    request.set_run_id(run_id_);
    return request;
  }
  v1::OpenRequest OpenRequest() const {
    // Every run has the same tables.
    static const auto* digests = new std::vector<std::string>(AttributeValueDigests(
        run_.nonlabel_data.Store()->preprocessing(), run_.agreement.attribute_audit().attributes()));
    v1::OpenRequest request = testing::OpenRequestOf(run_.agreement, *seed_);
    for (const std::string& digest : *digests) {
      request.add_attribute_values_sha256(digest);
    }
    return request;
  }
  v1::StartRequest StartRequest() const {
    v1::StartRequest request = testing::StartRequestOf(run_id_, aligned_, *seed_);
    request.set_in_flight_batches(run_.agreement.in_flight_batches() == 0 ? 1 : 0);
    return request;
  }
  // Of the epoch just evaluated.
  v1::GuessAttributesRequest GuessRequest() const {
    v1::GuessAttributesRequest request = Named<v1::GuessAttributesRequest>();
    request.set_epoch(epoch() - 1);
    return request;
  }
  v1::CloseRequest CloseRequest() const {
    v1::CloseRequest request = Named<v1::CloseRequest>();
    request.set_completed(true);
    return request;
  }
  v1::CutActivations Activations(int64_t rows, uint32_t batch, float scale = 1) const {
    v1::CutActivations message = testing::MadeUpActivations(run_, rows, scale);
    message.set_run_id(run_id_);
    message.set_epoch(epoch());
    message.set_batch(batch);
    return message;
  }
  // Of batch `batch` of `examples`, more or less.
  v1::CutActivations AnyActivations(uint32_t epoch, uint32_t batch, int64_t examples) {
    const float scales[] = {1, 0, -1, 1e-42F, 1e6F, 1e30F};
    const int64_t left = std::max<int64_t>(1, examples - kBatch * batch);
    const int64_t rows[] = {left, 1, 2, 63, 256};
    v1::CutActivations message = Activations(rows[script_.Below(5)], batch, scales[script_.Below(6)]);
    const int32_t offsets[] = {0, 1, -1};  // Which may be 2^32 - 1.
    message.set_epoch(epoch + static_cast<uint32_t>(offsets[script_.Below(3)]));
    message.set_batch(batch + static_cast<uint32_t>(offsets[script_.Below(3)]));
    return script_.Any(message);
  }
  v1::ScoreBatchRequest Scores() const {
    v1::ScoreBatchRequest request = testing::MadeUpScores(kBatch);
    request.set_run_id(run_id_);
    request.set_epoch(epoch());
    request.set_batch(batch() - 1);  // The one just answered.
    return request;
  }

  v1::ScoreExamplesRequest ExampleScores() const {
    v1::ScoreExamplesRequest request = Named<v1::ScoreExamplesRequest>();
    request.set_attack(v1::MODEL_COMPLETION);
    Require(EncodeMatrix(Matrix(1, kBatch), v1::FLOAT32, *request.mutable_scores()).ok());
    return request;
  }

  absl::Status Open(const v1::OpenRequest& request) {
    const absl::StatusOr<v1::OpenResponse> response = session_->Open(request);
    given_up_ |= !response.ok() && IsEnded();  // By another agreement.
    if (session_->peer_started_again()) {      // Or a peer that has: it is told to open it once more.
      given_up_ = true;
      return absl::OkStatus();
    }
    if (response.ok() && !opened_) {
      opened_ = true;
      given_up_ |= request.seed_commitment() != seed_->commitment() || request.nonce() != OpenRequest().nonce();
      run_id_ = response->run_id();
      commitment_ = response->seed_commitment();
    }
    return response.status();
  }

  absl::Status Start(const v1::StartRequest& request) {
    const absl::StatusOr<v1::StartResponse> response = session_->Start(request);
    given_up_ |= !response.ok() && IsEnded();  // By another alignment or seed than before.
    if (response.ok() && schedule_ == nullptr) {
      const absl::StatusOr<JointSeed> joint = seed_->Combine(commitment_, response->seed_reveal());
      RequireOk(joint.status());
      absl::StatusOr<testing::PeerSchedule> schedule = testing::ScheduleOf(run_, *joint, aligned_);
      RequireOk(schedule.status());
      schedule_ = std::make_unique<Schedule>(std::move(schedule->schedule));
      test_examples_ = schedule->test_examples;
      auxiliary_examples_ = schedule->auxiliary_examples;
    }
    return response.status();
  }

  absl::Status Train(const v1::CutActivations& request) {
    const bool due = request.epoch() == epoch() && request.batch() == batch();
    const absl::StatusOr<SharedGradients> answer = session_->Train(request);
    if (answer.ok() && due) {
      ++batch_;
      audit_due_ = Audit::kNone;
    }
    return answer.ok() ? session_->Learn() : answer.status();
  }

  absl::Status FinishEvaluation() {
    const LabelSession::Evaluation evaluation = std::exchange(evaluation_, {});
    const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(evaluation);
    if (response.ok() && evaluation.epoch == evaluated_) {
      ++evaluated_;
      batch_ = 0;
      audit_due_ = attributes_ ? Audit::kEmbed : Audit::kNone;
    }
    return response.status();
  }
  void Evaluate() {
    evaluation_ = {};
    for (int64_t done = 0; done < test_examples_ && !given_up_; done += kBatch) {
      Serve(session_->Evaluate(Activations(std::min(kBatch, test_examples_ - done), evaluation_.next_batch),
                               evaluation_));
    }
    if (!given_up_) {
      Serve(FinishEvaluation());
    }
  }

  absl::Status FinishEmbedding() {
    const LabelSession::Embedding embedding = std::exchange(embedding_, {});
    const absl::StatusOr<v1::EmbedAuxiliaryResponse> response = session_->FinishEmbedding(embedding);
    if (response.ok() && audit_due_ == Audit::kEmbed) {
      audit_due_ = Audit::kGuess;
    }
    return response.status();
  }
  void Embed() {
    embedding_ = {};
    for (int64_t done = 0; done < auxiliary_examples_ && !given_up_; done += kBatch) {
      v1::CutActivations message = Activations(std::min(kBatch, auxiliary_examples_ - done), embedding_.next_batch);
      message.set_epoch(epoch() - 1);
      Serve(session_->EmbedAuxiliary(message, embedding_));
    }
    if (!given_up_) {
      Serve(FinishEmbedding());
    }
  }
  absl::Status Guess(const v1::GuessAttributesRequest& request) {
    const absl::StatusOr<SharedGuesses> guesses = session_->GuessAttributes(request);
    if (guesses.ok() && audit_due_ == Audit::kGuess) {
      audit_due_ = Audit::kNone;
    }
    return guesses.status();
  }

  absl::Status Close(const v1::CloseRequest& request) {
    const absl::Status status = session_->Close(request);
    closed_ |= status.ok();
    given_up_ |= status.ok() && !request.completed();
    return status;
  }

  Script& script_;
  SequenceOutcome outcome_;
  testing::SmallRun run_;
  bool attributes_ = false;
  std::unique_ptr<LabelSession> session_;
  std::unique_ptr<SeedExchange> seed_;
  // What has been accepted so far.
  bool opened_ = false, closed_ = false, given_up_ = false;
  bool foreign_batch_ = false;  // One of SendAny's is among the batches.
  std::string run_id_, commitment_;
  AlignedIds aligned_;
  std::unique_ptr<Schedule> schedule_;
  int64_t test_examples_ = 0, auxiliary_examples_ = 0;
  uint32_t evaluated_ = 0, batch_ = 0;  // Epochs; batches of the next one.
  enum class Audit { kNone, kEmbed, kGuess } audit_due_ = Audit::kNone;
  // The streams under way.
  LabelSession::Evaluation evaluation_;
  LabelSession::Embedding embedding_;
};

}  // namespace

SequenceOutcome RunRequestSequence(const uint8_t* bytes, size_t size) {
  const google::protobuf::LogSilencer silencer;  // It prints a line for each string that is not UTF-8.
  Script script(bytes, size);
  FuzzedSession session(script);
  for (int request = 0; request < kMostRequests && !script.used_up() && !session.over(); ++request) {
    if (script.Below(3) == 0) {
      session.Advance();
    } else {
      session.SendAny();
    }
  }
  while (!session.over()) {
    session.Advance();
  }
  return session.End();
}

}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  splitveil::RunRequestSequence(bytes, size);
  return 0;
}
