// The honest-but-curious attack module: reads labels from the gradients the non-label party legitimately receives.
#ifndef SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
#define SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/agreement.h"
#include "common/leakage/attack_scorer.h"
#include "common/leakage/attack_traits.h"
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
  // `audit`: canonical. `examples`: aligned ones; positions lie below.
  AttackModule(const v1::AuditAgreement& audit, int64_t examples);

  bool empty() const { return agreed_.empty(); }
  // Whether an agreed attack takes in every batch, scored or not.
  bool remembers() const { return remembers_; }
  // Whether an agreed attack reads the cut activations.
  bool needs_activations() const { return needs_activations_; }
  // Whether an agreed attack cannot be scored without hints.
  bool needs_oracle() const { return needs_oracle_; }

  // The scores to submit, in the order of AgreedScores. Errors: InvalidArgument for input that does not fit itself;
  // FailedPrecondition where an attack needs what is not there.
  absl::StatusOr<std::vector<AttackScores>> Score(const AttackedBatch& batch);

  // Takes in a batch whose scores nobody asked for. Instead of Score. Errors: as Score.
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

  std::vector<AgreedScore> agreed_;
  bool remembers_ = false;
  bool needs_activations_ = false;
  bool needs_oracle_ = false;
  std::map<std::string, AttackScorer> adversaries_;  // By layer.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
