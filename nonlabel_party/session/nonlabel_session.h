// The non-label party's side of a run, free of gRPC: it drives.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "common/checkpoint/kept_model.h"
#include "common/dataset/feature_table.h"
#include "common/figures/run_figures.h"
#include "common/schedule/schedule.h"
#include "common/schedule/train_test_split.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/protection/protected_bottom_model.h"
#include "nonlabel_party/session/activation_account.h"
#include "nonlabel_party/session/answer_protocol.h"
#include "nonlabel_party/session/attack_runner.h"
#include "nonlabel_party/session/attribute_audit_runner.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/nonlabel_run_lifecycle.h"
#include "nonlabel_party/session/nonlabel_step_recorder.h"
#include "nonlabel_party/session/nonlabel_training_step.h"
#include "nonlabel_party/session/reconnector.h"

namespace splitveil {

// One run:
//
//   non-label party                        label party
//     Open  agreement, commitment     ───►               NonLabelRunLifecycle
//     Align masked ids                ◄──►               NonLabelRunLifecycle
//     Start order, seed               ───►               NonLabelRunLifecycle
//     for each epoch:
//       Train    z of each batch      ───►               NonLabelTrainingStep
//                gradients            ◄───
//                ScoreBatch           ───►               AttackRunner
//       Evaluate z of the test rows   ───►               EvaluateExamples
//       EmbedAuxiliary, GuessAttributes ───►             AttributeAuditRunner, if agreed
//                guesses              ◄───
//     AuxiliaryLabels, ScoreExamples  ───►               CompletionAttackRunner, if agreed
//     Close                           ───►               NonLabelRunLifecycle
//
// With mode PREDICT, after Align: Start, the activations of every shared example through Evaluate, Close.
//
// What may be answered when: AnswerProtocol. Not thread-safe.
class NonLabelSession {
 public:
  explicit NonLabelSession(NonLabelSessionOptions options);
  NonLabelSession(const NonLabelSession&) = delete;
  NonLabelSession& operator=(const NonLabelSession&) = delete;

  // Instead of Run: makes the model once, for the agreed layers and the data, and drops it. Sends nothing.
  absl::Status TryModel() const;
  // Opens, aligns, trains every epoch until the label party wants no more, closes. OK when complete;
  // StoppedOnRequest. The label party is told when the run ends early, and the ledger is finished in every case. Once.
  absl::Status Run();

  // After Run: the model as trained or loaded. Null if the run never came that far.
  BottomModel* model() { return model_.get(); }
  // After Run: what this party knows of the run, as far as it went. None if it never came to training or prediction.
  std::optional<RunFigures> figures() const;
  // After Run: as NonLabelSessionOptions', less those begun.
  int alignments_left() const { return options_.alignments_left; }
  // After Run: own rows in the order both parties share.
  const AlignedIds& aligned() const { return lifecycle_.aligned(); }

 private:
  absl::Status RunToEnd();
  // From Start to Close, as the agreement's mode says.
  absl::Status Train();
  // Sends the activations of every shared example in the aligned order. They pass the same clipping, noise and gate as
  // in training, and count as one release of each example.
  absl::Status Predict();
  // That the model and the agreed layers will do, before the first message.
  absl::Status CheckModel() const;
  absl::StatusOr<std::vector<ProtectedAttribute>> Attributes() const;
  absl::Status Start();
  // Counts the run's releases of the examples at `positions` before anything is sent, and records what is then proved.
  // `steps`: of ProtectedBottomModel::Pretrain; nullopt: the run resumes. Errors: as ActivationAccount::Begin; the
  // ledger's.
  absl::Status CountReleases(absl::Span<const uint32_t> positions, std::optional<int64_t> steps);
  void GatherFeatures();
  absl::Status CreateModel();
  absl::Status PrepareTraining(const JointSeed& seed);
  void ConnectTraining();
  // Brings the privacy loss below its threshold before anything is sent: the steps that took.
  absl::StatusOr<int64_t> BeginProtection();
  // Of the split, all that is ever sent.
  // Ends with the weights that the run keeps.
  absl::Status TrainEpochs();
  // Trains the batches of the epoch from `first` on over one stream. OK, too, if a stop was asked for
  // (StopRequest::seen): answers to batches under way are still taken, so that the run ends between steps. Errors: what
  // ended the stream; see NonLabelTrainingStep.
  absl::Status TrainEpoch(uint32_t epoch, uint32_t first);
  absl::Status TrainToCheckpoints(uint32_t epoch, uint32_t first, TrainingStream& stream);
  // Batches [first, end), with the agreed number of them in flight.
  absl::Status TrainBatches(uint32_t epoch, uint32_t first, uint32_t end, TrainingStream& stream);
  // After so many epochs, and batches of the next one; nothing is in flight.
  absl::Status WriteCheckpoint(uint32_t epochs, uint32_t batches);
  // Then, where it has judged trained weights, keeps what the label party says.
  absl::Status Evaluate(uint32_t epoch);
  // The label party's attacks on attributes, if they are due.
  absl::Status AuditAttributes(uint32_t epoch);
  // The largest privacy losses of what has been evaluated or embedded, if the protection has a threshold.
  absl::Status RecordPredicted(const char* examples, uint32_t epoch);
  absl::Status CompleteModel();
  ActivationsSource Source();
  // Of each example, at most.
  bool only_predicts() const { return options_.agreement.mode() == v1::RunAgreement::PREDICT; }

  NonLabelSessionOptions options_;
  StopRequest stop_;
  Reconnector reconnector_;
  ResumingPeer peer_;  // In the place of options_.peer.
  AnswerProtocol protocol_;
  NonLabelRunLifecycle lifecycle_;
  ActivationAccount account_;
  // From Start on, each reading those before it; with mode PREDICT the features and the models only.
  TrainTestSplit split_;
  std::unique_ptr<FeatureTable> features_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<BottomModel> model_;
  std::unique_ptr<ProtectedBottomModel> protected_model_;  // What is sent of it.
  std::unique_ptr<AttackRunner> attacks_;
  std::unique_ptr<NonLabelStepRecorder> recorder_;
  std::unique_ptr<NonLabelTrainingStep> step_;
  std::unique_ptr<AttributeAuditRunner> attribute_audit_;
  KeptModel kept_model_;
  bool stopped_early_ = false;  // The label party wants no further epoch.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_
