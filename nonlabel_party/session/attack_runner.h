// Attacks on the labels as this party runs them in a session: on batches, and once a run on a completed model.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ATTACK_RUNNER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ATTACK_RUNNER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "nonlabel_party/attack/attack_module.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/reconnector.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// A batch that Backward has taken.
struct ReceivedBatch {
  int64_t step = 0;
  v1::CutGradients message;                         // With the hints under disclosure ORACLE.
  std::vector<LayerGradient> gradients;             // Of AttackRunner::Layers(step).
  std::vector<std::vector<float>> clean_positives;  // The hint at each of them; AttackRunner::TakeHint fills it.
  absl::Span<const uint32_t> positions;             // Aligned positions of the rows; borrowed.
  Matrix activations;                               // As sent; empty unless AttackRunner::needs_activations().
};

// Not thread-safe.
class AttackRunner {
 public:
  // `agreement`: canonical. `examples`: aligned ones. `peer`, `model`, `ledger`: not owned; must outlive this. Errors:
  // InvalidArgument for an agreed layer that the model does not have.
  static absl::StatusOr<AttackRunner> Create(const v1::RunAgreement& agreement, const std::string& run_id,
                                             int64_t examples, AuditPeer* peer, BottomProbe* model, Ledger* ledger);

  // Layers whose gradients Report wants from Backward for the batch of step `step`; empty where it is neither audited
  // nor to be remembered.
  absl::Span<const std::string> Layers(int64_t step) const;
  bool needs_activations() const { return attacks_.needs_activations(); }

  // Back-propagates the hint of the batch that Backward has just taken; call before Update. A refusal where the hints
  // are malformed or not disclosed.
  absl::Status TakeHint(ReceivedBatch& batch);
  // Attacks a batch whose hint is taken; nothing of the training waits for it. A batch that is not audited, or without
  // the hints that an agreed attack needs, is only remembered. A refusal where the AUCs that come back are malformed or
  // not disclosed; none of those is recorded then.
  absl::Status Report(const ReceivedBatch& batch);

  // What an answer says of the disclosure level, hints and all: that it has been lowered, which is recorded once. A
  // refusal where nothing can be lower, or an answer to a later batch takes it back.
  absl::Status TakeDisclosure(const v1::CutGradients& message);
  // Once: that it has been lowered, from `when` on.
  absl::Status RecordLowered(const std::string& when);

  // Of the latest Report: seconds that it waited for the label party's answer.
  double waited_seconds() const { return waited_seconds_; }
  // For the progress line: "norm 0.54 cosine 0.68 at cut"; empty where the disclosure tells nothing.
  const std::string& latest() const { return latest_; }
  // All AUCs that the disclosure let this party read, batch by batch: (layer, attack) -> AUCs.
  const std::map<std::pair<std::string, std::string>, StepSeries>& disclosed() const { return disclosed_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(attacks_, disclosed_, lowered_);
  }

  AttackRunner(const v1::RunAgreement& agreement, const std::string& run_id, int64_t examples)
      : agreement_(agreement), run_id_(run_id), attacks_(agreement.audit(), examples) {}

  bool Audited(int64_t step) const;
  absl::Status CheckHints(const v1::CutGradients& message, int64_t rows) const;
  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(const v1::Hint& hint);
  absl::Status Submit(const ReceivedBatch& batch, const std::vector<AttackScores>& scores);
  absl::Status CheckLeaks(const ReceivedBatch& batch, const v1::ScoreBatchResponse& response) const;
  absl::Status Record(const ReceivedBatch& batch, const v1::ScoreBatchResponse& response);

  v1::RunAgreement agreement_;
  std::string run_id_;
  std::vector<std::string> layers_;
  AttackModule attacks_;
  AuditPeer* peer_ = nullptr;
  BottomProbe* model_ = nullptr;
  Ledger* ledger_ = nullptr;
  double waited_seconds_ = 0;
  std::string latest_;
  std::map<std::pair<std::string, std::string>, StepSeries> disclosed_;
  bool lowered_ = false;  // Since an answer said so, for good.
};

// MODEL_COMPLETION and FEATURES_ONLY after the last epoch, under disclosure ORACLE. The difference of their AUCs is
// what training has taught the bottom model about the labels.
//
// The label party takes silence beyond deadlines.step_seconds for a lost peer, so the question for the labels, which it
// answers alike every time, is repeated every kStepsBetweenCalls optimiser steps. Not thread-safe.
class CompletionAttackRunner {
 public:
  static constexpr int64_t kStepsBetweenCalls = 100;

  struct Options {
    AuditPeer* peer = nullptr;  // Not owned; must outlive this, as all here.
    std::string run_id;
    int64_t auxiliary_labels = 0;  // As agreed, > 0.
    int64_t batch_size = 0;        // Scores per message.
    BottomModelOptions bottom;     // As the party's own.
    const FeatureTable* features = nullptr;
    std::vector<uint32_t> train;  // Aligned positions of the training examples, ascending.
    StopRequest* stop = nullptr;  // Asked every kStepsBetweenCalls steps and between chunks.
  };
  explicit CompletionAttackRunner(Options options) : options_(std::move(options)) {}

  // Asks for the labels, completes the bottom model of these parameters and one from scratch, and submits the scores of
  // both. Returns how many labels there were: none where the label party withholds them, whose operator has lowered the
  // disclosure level. Errors: StoppedOnRequest; a refusal where the label party's
  // answer is malformed or changes.
  absl::StatusOr<int64_t> Report(const NamedParameters& trained);

 private:
  absl::StatusOr<v1::AuxiliaryLabelsResponse> Ask();
  absl::Status AskAgain();
  absl::Status CheckAuxiliary(const v1::AuxiliaryLabelsResponse& auxiliary) const;
  absl::Status Train(ModelCompletion& completion, int64_t steps);
  absl::Status SubmitAll(v1::Attack attack, ModelCompletion& completion);
  absl::Status Submit(v1::Attack attack, int64_t first, const std::vector<float>& scores);

  const Options options_;
  v1::AuxiliaryLabelsResponse auxiliary_;  // As first answered; valid.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ATTACK_RUNNER_H_
