#include "nonlabel_party/attack/attack_module.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/scores.h"

namespace splitveil {

absl::StatusOr<std::vector<AttackScores>> RunAttacks(const std::vector<LayerGradient>& gradients,
                                                     const std::vector<std::vector<float>>& hints,
                                                     absl::Span<const v1::Attack> attacks) {
  std::vector<AttackScores> all;
  all.reserve(gradients.size() * attacks.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    for (v1::Attack attack : attacks) {
      AttackScores scores{gradients[i].layer, attack, {}};
      if (attack == v1::NORM) {
        scores.scores = NormScores(gradients[i].gradient);
      } else if (attack == v1::COSINE) {
        if (i >= hints.size() || hints[i].size() != gradients[i].gradient.cols()) {
          return absl::FailedPreconditionError(absl::StrCat("attack COSINE at layer ", gradients[i].layer,
                                                            ": expected a clean positive gradient, found none"));
        }
        scores.scores = CosineScores(gradients[i].gradient, hints[i]);
      } else {
        return absl::FailedPreconditionError(absl::StrCat("attack: expected a known attack, found number ", attack));
      }
      all.push_back(std::move(scores));
    }
  }
  return all;
}

}  // namespace splitveil
