// The attacks of this party on labels: on the gradients of batches, and by completing the bottom model with a few
// labels.
#ifndef SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
#define SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/agreement.h"
#include "common/dataset/feature_table.h"
#include "common/leakage/attack_scorer.h"
#include "common/leakage/attack_traits.h"
#include "common/model/layer_stack.h"
#include "nonlabel_party/bottom/bottom_model.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// What the non-label party holds of a batch when its gradient has come. Borrowed for the call.
struct AttackedBatch {
  absl::Span<const LayerGradient> gradients;  // Of every agreed layer, in the agreed order.
  absl::Span<const uint32_t> positions;       // Aligned positions of the rows.
  ConstMatrixView activations;                // [batch, cut_width], as sent; empty unless needs_activations().
  absl::Span<const uint32_t> hint_rows;       // Rows known to be positive, empty without an oracle.
  // The clean positive gradient back-propagated to each of these layers, in the same order; empty without an oracle.
  absl::Span<const std::vector<float>> clean_positives;
};

// Scores of one attack at one layer, one per example; larger means "positive".
struct AttackScores {
  std::string layer;
  AttackVariant attack;
  std::vector<float> scores;
};

// Every agreed attack on every layer, over a run: one adversary per layer, which keeps what cumulative attacks sum. Not
// thread-safe.
class AttackModule {
 public:
  // `audit`: canonical. `examples`: number of aligned examples; positions lie below it.
  AttackModule(const v1::AuditAgreement& audit, int64_t examples);

  // Whether no attack is agreed, so that there is nothing to score.
  bool empty() const { return agreed_.empty(); }
  // Whether an agreed attack takes in every batch, scored or not.
  bool remembers() const { return remembers_; }
  // Whether an agreed attack reads the cut activations.
  bool needs_activations() const { return needs_activations_; }
  // Whether an agreed attack cannot be scored without hints.
  bool needs_oracle() const { return needs_oracle_; }

  // The scores to submit, in the order of AgreedScores. Errors: InvalidArgument for input that does not fit itself;
  // FailedPrecondition if an attack needs what is not there.
  absl::StatusOr<std::vector<AttackScores>> Score(const AttackedBatch& batch);

  // Over how many rows of a batch the label party measures the attack: those at `positions` whose labels the attack was
  // not told, and for a cumulative one, that it remembers.
  int64_t MeasuredOver(AttackVariant attack, absl::Span<const uint32_t> positions,
                       absl::Span<const uint32_t> hint_rows) const;

  // Takes in a batch whose scores nobody asked for. Instead of Score. Errors: see Score.
  absl::Status Remember(const AttackedBatch& batch);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    for (auto& [layer, adversary] : adversaries_) {
      archive(adversary);
    }
  }

  absl::Status Begin(const AttackedBatch& batch);

  const ExampleSample sample_;
  std::vector<AgreedScore> agreed_;
  bool remembers_ = false;
  bool needs_activations_ = false;
  bool needs_oracle_ = false;
  std::map<std::string, AttackScorer> adversaries_;  // By layer.
};

// Passes over the known examples. Fixed: nothing the adversary holds would tell it when to stop but the labels it
// trains on, which more passes only fit better. A trained bottom model has little left to learn; one trained from
// scratch is given the time to converge.
inline constexpr int kCompletionPasses = 5;
inline constexpr int kFeaturesOnlyPasses = 50;
// Optimiser steps of a training at most, however many examples are known: it runs while the label party waits for
// the run to end. Reached by 50 passes over 1,280 known examples, and by 5 over 12,800; beyond it passes are left out,
// and beyond 64,000 known examples one pass does not see all of them.
inline constexpr int64_t kMaxCompletionSteps = 2000;

// The model completion attack (Fu et al., "Label Inference Attacks Against Vertical Federated Learning", USENIX
// Security 2022, section 4), supervised form: a bottom model gets a linear inference head, and both are trained on the
// known examples by logistic loss with the party's own optimiser. It needs no gradient of the label party's, only what
// training has put into the bottom model, so no noise on single gradients answers for it. Not thread-safe.
class ModelCompletion {
 public:
  struct Options {
    BottomModelOptions bottom;               // As the party's own.
    const FeatureTable* features = nullptr;  // Not owned; must outlive this.
    std::vector<uint32_t> positions;         // Aligned positions of the known examples, at least one.
    std::vector<uint8_t> labels;             // Theirs, 0 or 1.
  };

  // `trained`: the bottom model's parameters to start from; null: from scratch (features only). Errors: as
  // BottomModel::Create and SetParameters; InvalidArgument for no examples or a wrong number of labels.
  static absl::StatusOr<std::unique_ptr<ModelCompletion>> Create(const Options& options,
                                                                 const NamedParameters* trained);

  // Optimiser steps that so many passes over the known examples take, at most kMaxCompletionSteps.
  int64_t Steps(int passes) const;

  // The next `steps` optimiser steps. Each pass takes the known examples in another random order. Errors: Internal from
  // LibTorch.
  absl::Status Train(int64_t steps);

  // Not owned; lives as long as this.
  const BottomModel& bottom() const { return *bottom_; }

  // Logits of the examples at these positions; larger means "positive". [positions]
  absl::StatusOr<std::vector<float>> Score(absl::Span<const uint32_t> positions);

 private:
  explicit ModelCompletion(const Options& options) : options_(options), random_(options.bottom.seed) {}

  absl::Status StartHead();
  absl::Status Learn(absl::Span<const uint32_t> ranks);

  const Options options_;
  std::mt19937_64 random_;
  std::vector<uint32_t> order_;  // Ranks of the known examples in the order of the pass under way.
  size_t next_ = 0;              // The first in `order_` not learnt in it.
  std::unique_ptr<BottomModel> bottom_;
  std::unique_ptr<LayerStack> head_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
