// Label inference by completing a bottom model to a classifier with a few known labels.
#ifndef SPLITVEIL_NONLABEL_PARTY_ATTACK_MODEL_COMPLETION_H_
#define SPLITVEIL_NONLABEL_PARTY_ATTACK_MODEL_COMPLETION_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/model/layer_stack.h"
#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// Passes over the known examples. Fixed: nothing the adversary holds would tell it when to stop but the labels it
// trains on, which more passes only fit better. A trained bottom model has little left to learn; one trained from
// scratch is given the time to converge.
inline constexpr int kCompletionPasses = 5;
inline constexpr int kFeaturesOnlyPasses = 50;
// Optimiser steps of a training at most, however many examples are known: it goes on while the label party waits for
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
  // BottomModel::Create and SetParameters; InvalidArgument for no examples or another number of labels.
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

#endif  // SPLITVEIL_NONLABEL_PARTY_ATTACK_MODEL_COMPLETION_H_
