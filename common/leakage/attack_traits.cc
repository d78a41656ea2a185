#include "common/leakage/attack_traits.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"

namespace splitveil {
namespace {

AttackTraits Oracle(int hints) {
  AttackTraits traits;
  traits.needs_oracle = true;
  traits.hints = hints;
  return traits;
}

}  // namespace

AttackTraits TraitsOf(v1::Attack attack) {
  AttackTraits traits;
  switch (attack) {
    case v1::NORM:
    case v1::MAJORITY_DIRECTION:
    case v1::SPECTRAL:
    case v1::GRADIENT_CLUSTERS:
    case v1::RESIDUAL_NORM:
      break;
    case v1::COSINE:
    case v1::INNER_PRODUCT:
    case v1::HINT_DISTANCE_1:
    case v1::HINT_INNER_PRODUCT_1:
      return Oracle(1);
    case v1::HINT_DISTANCE_3:
    case v1::HINT_INNER_PRODUCT_3:
      return Oracle(3);
    case v1::HINT_DISTANCE_5:
    case v1::HINT_INNER_PRODUCT_5:
      return Oracle(kMaxHints);
    case v1::ACTIVATION_CLUSTERS:
      traits.cut_only = true;
      break;
    case v1::CUMULATIVE_SPECTRAL:
      traits.remembers = true;
      break;
    case v1::MODEL_COMPLETION:
    case v1::FEATURES_ONLY:
      traits.needs_oracle = true;
      traits.once_a_run = true;
      break;
    case v1::CUMULATIVE_LIKELIHOOD_RATIO:
    case v1::CUMULATIVE_DIRECTION:
      traits.remembers = true;
      traits.label_side_only = true;
      break;
    default:
      traits.label_side_only = true;
  }
  return traits;
}

std::string AttackName(v1::Attack attack) { return absl::AsciiStrToLower(v1::Attack_Name(attack)); }

absl::Span<const uint32_t> RowsLeftOut(v1::Attack attack, absl::Span<const uint32_t> hint_rows) {
  return hint_rows.subspan(0, std::min<size_t>(hint_rows.size(), std::max(1, TraitsOf(attack).hints)));
}

}  // namespace splitveil
