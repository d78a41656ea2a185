// The attacks that run once per run: from the agreed auxiliary labels to submitted scores of all training examples.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_COMPLETION_ATTACK_RUNNER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_COMPLETION_ATTACK_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "nonlabel_party/attack/model_completion.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/stop_request.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

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

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_COMPLETION_ATTACK_RUNNER_H_
