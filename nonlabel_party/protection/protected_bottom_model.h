// The bottom model with its protection: what training and evaluation see in the place of the model itself.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PROTECTED_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PROTECTED_BOTTOM_MODEL_H_

#include <cereal/access.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/protection/activation_protection.h"
#include "nonlabel_party/protection/privacy_objective.h"

#include "splitveil/v1/activation_protection.pb.h"
#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Of the model that a party of this configuration trains, or has trained, on data like these.
BottomModelOptions BottomOptions(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config,
                                 const Dataset& data);

// What a step did to one attribute.
struct AttributeStep {
  std::string attribute;
  double privacy_loss = 0;  // Of the batch as it was sent: L_p in nats, or the simulated adversary's loss.
  double weight = 0;        // Of its gradient in the step, the utility's being `utility_weight`.
};
struct ProtectionStep {
  std::vector<AttributeStep> attributes;
  double utility_weight = 1;
  double threshold = std::numeric_limits<double>::quiet_NaN();  // Of the privacy losses; NaN: the method has none.
  int64_t correction_steps = 0;  // On L_p alone, before the batch was within the threshold and its slack.
  bool at_front = false;         // ParetoDirection::at_front.
};

// Plans what a step does (PrivacyObjective, FindParetoDirection), then has the model do it:
//
//   Forward    f(x); L_p of the batch as it is sent, clipped and with noise, and the gate: no batch above the threshold
//              and its slack comes out (pareto); then clipping and noise
//   Backward   the label party's gradients, perturbed or not, through the clipping, as those of L_p
//   Update     weights of all gradients, their sum, one step of the model's own optimiser
//   Predict    f(x), the same gate (what is evaluated is not trained on, so that nothing corrects it), clipping and
//   noise
//
// The utility loss itself is the label party's, and is not sent: where equation 12 weighs losses against each other,
// L_u counts as kUtilityLoss. A loss that is no finite number halts the run. Not thread-safe.
class ProtectedBottomModel final : public BottomTrainer, public BottomPredictor {
 public:
  // About the loss of a binary label at the start of training, ln 2. L_p is a hundredth of it or less, so that
  // directions hardly depend on it.
  static constexpr double kUtilityLoss = 0.69;

  // `model`: not owned; must outlive this. `attributes`: of CheckActivationProtection. Errors: see CreateObjective.
  static absl::StatusOr<std::unique_ptr<ProtectedBottomModel>> Create(BottomModel* model,
                                                                      const v1::ActivationProtection& protection,
                                                                      std::vector<ProtectedAttribute> attributes,
                                                                      int64_t cut_width, uint64_t seed);

  // Algorithm 1, lines 2 to 7, for pareto; nothing for other methods. Trains the model on the L_p of batches that
  // `next` gathers until kBelowInARow of them are within the threshold, at most max_pretraining_steps. Returns the
  // steps. Errors: a halt (AsHalt) if that is not reached; the model's.
  absl::StatusOr<int64_t> Pretrain(const std::function<FeatureBatch()>& next);
  static constexpr int kBelowInARow = 5;

  // With `gaussian`, too, so that a batch is sent, and counted, as one release.
  bool needs_whole_batch() const override {
    return !objectives_.empty() || protection_.has_gaussian() || model_->needs_whole_batch();
  }
  // Errors: beside the model's, a halt if a batch stays above the threshold and its slack: it must not be sent.
  absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) override;
  absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                        absl::Span<const std::string> layers) override;
  absl::Status Discard() override;
  absl::Status Update() override;
  // A batch that is smaller than the one before it since the last Forward, for instance the last of an evaluation, is
  // judged together with that one: alone, so few rows say little about the privacy loss. Errors: see Forward.
  absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) override;

  // Of the latest Forward or Update.
  const ProtectionStep& latest() const { return latest_; }
  // The largest L_p of each attribute that a Predict since the last call had; empty without a threshold, or a Predict.
  std::vector<AttributeStep> TakePredicted() { return std::exchange(predicted_, {}); }
  // For `gaussian` ActivationNoise::Mu; infinite for other methods, which prove nothing.
  double Mu(int64_t releases) const {
    return protection_.has_gaussian() ? noise_->Mu(releases) : std::numeric_limits<double>::infinity();
  }
  // Where in the run the next Forward or Predict belongs (ActivationNoise::SetPosition).
  void SetPosition(const NoisePosition& position) { noise_->SetPosition(position); }
  // ActivationNoise::Id.
  std::string NoiseId() const { return noise_->Id(); }

 private:
  friend class cereal::access;
  // Between steps.
  template <typename Archive>
  void save(Archive& archive) const {
    std::vector<NamedParameters> states;
    for (const std::unique_ptr<PrivacyObjective>& objective : objectives_) {
      states.push_back(objective->TrainingState());
    }
    archive(*noise_, states);
  }
  template <typename Archive>
  void load(Archive& archive) {
    std::vector<NamedParameters> states;
    archive(*noise_, states);
    Restore(states);
  }

  // A batch, or a slice of one, between its Forward and its Update.
  struct Pending {
    FeatureBatch features;                // Of its attributes, and to go through the model again.
    Matrix activations;                   // f(x), if something needs it.
    Matrix sent;                          // z.
    std::vector<ActivationLoss> privacy;  // By attribute; derivatives by f(x).
    Matrix received;                      // The label party's gradients at z, if an attack reads them,
    Matrix utility;                       // and at f(x).
  };

  ProtectedBottomModel(BottomModel* model, v1::ActivationProtection protection,
                       std::vector<ProtectedAttribute> attributes)
      : model_(model), protection_(std::move(protection)), attributes_(std::move(attributes)) {}

  bool has_threshold() const { return protection_.has_pareto(); }
  void Restore(const std::vector<NamedParameters>& states);
  // The largest privacy loss with which a batch is sent.
  double Limit() const { return protection_.pareto().threshold() * (1 + protection_.pareto().slack()); }
  absl::Status ComputePrivacy(Pending& pending);
  // The gate of what is predicted.
  absl::Status JudgePredicted(const FeatureBatch& batch, ConstMatrixView activations);
  // The largest of the batch's privacy losses.
  static double Largest(const Pending& pending);
  // One step of the model on the privacy losses of its only pending Forward.
  absl::Status DescendPrivacy(const Pending& pending);
  // Until the batch, whose Forward is the model's only pending one, is within the threshold and its slack.
  absl::Status Correct(Pending& pending);
  // The weights of the utility's gradient and of each attribute's.
  absl::StatusOr<std::vector<double>> Weights(const Pending& pending);

  BottomModel* const model_;
  const v1::ActivationProtection protection_;
  const std::vector<ProtectedAttribute> attributes_;
  std::unique_ptr<ActivationNoise> noise_;
  std::vector<std::unique_ptr<PrivacyObjective>> objectives_;  // By attribute; none: the model's own gradient is all.
  std::deque<std::unique_ptr<Pending>> pending_;
  std::vector<std::unique_ptr<Pending>> current_;  // Between Backward and Update.
  ProtectionStep latest_;
  Pending judged_;  // Of the latest Predict: attributes and activations alone. No rows: none since a Forward.
  std::vector<AttributeStep> predicted_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_PROTECTED_BOTTOM_MODEL_H_
