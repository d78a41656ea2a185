// The honest-but-curious attack module: reads labels from the gradients the non-label party legitimately receives.
#ifndef SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
#define SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "nonlabel_party/bottom/bottom_model.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Scores of one attack at one layer, one an example; larger means "positive".
struct AttackScores {
  std::string layer;
  v1::Attack attack = v1::ATTACK_UNSPECIFIED;
  std::vector<float> scores;
};

// Runs every agreed attack on every layer's gradient. `hints`: the clean positive gradient back-propagated to each of
// these layers, in the same order (empty without a hint). Pure. Errors: FailedPrecondition where an attack needs a hint
// that is not there.
absl::StatusOr<std::vector<AttackScores>> RunAttacks(const std::vector<LayerGradient>& gradients,
                                                     const std::vector<std::vector<float>>& hints,
                                                     absl::Span<const v1::Attack> attacks);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_ATTACK_ATTACK_MODULE_H_
