#include "common/leakage/attack_traits.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace splitveil {
namespace {

using Needs = SideInformation;
using Runs = AttackOccasion;

// In the order of reports: what any partner can do, then with hints or labels, then what only the label party can play
// in its stead.
constexpr AttackTraits kAttacks[] = {
    {v1::NORM, "norm", Needs::kNone, Runs::kEachBatch},
    {v1::RESIDUAL_NORM, "residual_norm", Needs::kNone, Runs::kEachBatch},
    {v1::MAJORITY_DIRECTION, "majority_direction", Needs::kNone, Runs::kEachBatch},
    {v1::SPECTRAL, "spectral", Needs::kNone, Runs::kEachBatch},
    {v1::GRADIENT_CLUSTERS, "gradient_clusters", Needs::kNone, Runs::kEachBatch},
    {v1::CUMULATIVE_SPECTRAL, "cumulative_spectral", Needs::kNone, Runs::kCumulative},
    {v1::FACTOR_ANALYSIS, "factor_analysis", Needs::kNone, Runs::kEachBatch},
    {v1::CUMULATIVE_FACTOR_ANALYSIS, "cumulative_factor_analysis", Needs::kNone, Runs::kCumulative},
    {v1::SURROGATE_HEAD, "surrogate_head", Needs::kActivationsToo, Runs::kEachBatch},
    {v1::CUMULATIVE_SURROGATE_HEAD, "cumulative_surrogate_head", Needs::kActivationsToo, Runs::kCumulative},
    {v1::UNSPLIT, "unsplit", Needs::kActivationsToo, Runs::kEachBatch},
    {v1::ACTIVATION_CLUSTERS, "activation_clusters", Needs::kActivations, Runs::kEachBatch},
    {v1::COSINE, "cosine", Needs::kCleanPositive, Runs::kEachBatch},
    {v1::INNER_PRODUCT, "inner_product", Needs::kCleanPositive, Runs::kEachBatch},
    {v1::HINT_DISTANCE, "hint_distance", Needs::kHintRows, Runs::kEachBatch},
    {v1::HINT_INNER_PRODUCT, "hint_inner_product", Needs::kHintRows, Runs::kEachBatch},
    {v1::MODEL_COMPLETION, "model_completion", Needs::kAuxiliaryLabels, Runs::kOncePerRun},
    {v1::FEATURES_ONLY, "features_only", Needs::kAuxiliaryLabels, Runs::kOncePerRun},
    {v1::LIKELIHOOD_RATIO, "likelihood_ratio", Needs::kClassMoments, Runs::kEachBatch},
    {v1::MEASURED_LIKELIHOOD_RATIO, "measured_likelihood_ratio", Needs::kMeasuredClassMoments, Runs::kEachBatch},
    {v1::DIRECTION, "direction", Needs::kClassMeans, Runs::kEachBatch},
    {v1::CUMULATIVE_LIKELIHOOD_RATIO, "cumulative_likelihood_ratio", Needs::kClassMoments, Runs::kCumulative},
    {v1::CUMULATIVE_DIRECTION, "cumulative_direction", Needs::kClassMeans, Runs::kCumulative},
    {v1::CONDITIONAL_LIKELIHOOD_RATIO, "conditional_likelihood_ratio", Needs::kReleasingHead, Runs::kEachBatch},
    {v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO, "cumulative_conditional_likelihood_ratio", Needs::kReleasingHead,
     Runs::kCumulative},
};

}  // namespace

absl::Span<const AttackTraits> AllAttackTraits() { return kAttacks; }

AttackTraits TraitsOf(v1::Attack attack) {
  for (const AttackTraits& traits : kAttacks) {
    if (traits.attack == attack) {
      return traits;
    }
  }
  // Fail closed: only the label party may run an unknown attack.
  return {attack, "", SideInformation::kClassMoments, AttackOccasion::kEachBatch};
}

std::vector<AttackVariant> VariantsOf(v1::Attack attack, absl::Span<const int> hint_counts) {
  if (!TraitsOf(attack).takes_hint_count()) {
    return {attack};
  }
  std::vector<AttackVariant> variants;
  for (int hint_count : hint_counts) {
    variants.emplace_back(attack, hint_count);
  }
  return variants;
}

std::vector<int> HintCounts(absl::Span<const int32_t> configured) {
  // One, three and five hints: enough to show how fast the leak grows with what the adversary already knows.
  return configured.empty() ? std::vector<int>{1, 3, kMaxHints}
                            : std::vector<int>(configured.begin(), configured.end());
}

std::string AttackName(AttackVariant variant) {
  const AttackTraits traits = TraitsOf(variant.attack);
  return traits.takes_hint_count() && variant.hint_count > 0 ? absl::StrCat(traits.name, "_", variant.hint_count)
                                                             : std::string(traits.name);
}

std::optional<AttackVariant> AttackOfName(absl::string_view name) {
  for (const AttackTraits& traits : kAttacks) {
    if (name == traits.name) {
      return traits.attack;
    }
    absl::string_view rest = name;
    int hint_count = 0;
    // Compared as a whole again: "hint_distance_03" and "hint_distance_+3" are no names.
    if (traits.takes_hint_count() && absl::ConsumePrefix(&rest, traits.name) && absl::ConsumePrefix(&rest, "_") &&
        absl::SimpleAtoi(rest, &hint_count) && hint_count >= 1 && hint_count <= kMaxHints &&
        AttackName({traits.attack, hint_count}) == name) {
      return AttackVariant(traits.attack, hint_count);
    }
  }
  return std::nullopt;
}

absl::Span<const uint32_t> RowsLeftOut(AttackVariant variant, absl::Span<const uint32_t> hint_rows) {
  return hint_rows.subspan(0, std::min<size_t>(hint_rows.size(), std::max(1, variant.hint_count)));
}

}  // namespace splitveil
