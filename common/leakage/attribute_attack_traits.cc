#include "common/leakage/attribute_attack_traits.h"

namespace splitveil {
namespace {

constexpr AttributeAttackTraits kAttacks[] = {
    {v1::BASIC, "basic", DecoderSource::kAuxiliaryActivations, false},
    {v1::LINEAR_PROBE, "linear_probe", DecoderSource::kAuxiliaryActivations, true},
    {v1::POISON, "poison", DecoderSource::kMarkedActivations, false},
    {v1::CUMULATIVE_POISON, "cumulative_poison", DecoderSource::kMarkedHistory, false},
    {v1::SIMULATOR, "simulator", DecoderSource::kAuxiliaryFeatures, false},
};

}  // namespace

absl::Span<const AttributeAttackTraits> AllAttributeAttackTraits() { return kAttacks; }

AttributeAttackTraits TraitsOf(v1::AttributeAttack attack) {
  for (const AttributeAttackTraits& traits : kAttacks) {
    if (traits.attack == attack) {
      return traits;
    }
  }
  return {attack, "", DecoderSource::kAuxiliaryFeatures, false};
}

std::optional<v1::AttributeAttack> AttributeAttackOfName(absl::string_view name) {
  for (const AttributeAttackTraits& traits : kAttacks) {
    if (name == traits.name) {
      return traits.attack;
    }
  }
  return std::nullopt;
}

}  // namespace splitveil
