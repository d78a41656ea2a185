#include "common/leakage/attack_rank.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "common/leakage/attack_traits.h"

namespace splitveil {
namespace {

// Figures that differ by rounding alone are the same.
double AsPrinted(double auc) { return std::round(1e6 * auc) / 1e6; }

std::optional<AttackTraits> TraitsOfName(absl::string_view attack) {
  const std::optional<AttackVariant> known = AttackOfName(attack);
  return known.has_value() ? std::optional<AttackTraits>(TraitsOf(known->attack)) : std::nullopt;
}

auto Rank(const MeasuredAttack& measured) {
  return std::make_tuple(UsesGivenLabels(measured.attack), !ReadsGradients(measured.attack), -AsPrinted(measured.auc()),
                         -AsPrinted(measured.typical_auc()), NeedsOf(measured.attack), measured.layer != "cut",
                         measured.layer, measured.attack);
}

}  // namespace

AttackNeeds NeedsOf(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  if (!traits.has_value()) {
    return AttackNeeds::kUnknown;
  }
  switch (traits->needs) {
    case SideInformation::kNone:
    case SideInformation::kActivations:
    case SideInformation::kActivationsToo:
      return AttackNeeds::kNothing;
    case SideInformation::kCleanPositive:
    case SideInformation::kHintRows:
      return AttackNeeds::kKnownPositives;
    case SideInformation::kAuxiliaryLabels:
      return AttackNeeds::kGivenLabels;
    default:
      return AttackNeeds::kTrueClasses;
  }
}

bool NeedsNoSideInformation(absl::string_view attack) { return NeedsOf(attack) == AttackNeeds::kNothing; }

bool UsesGivenLabels(absl::string_view attack) { return NeedsOf(attack) == AttackNeeds::kGivenLabels; }

bool ReadsGradients(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  return !traits.has_value() || traits->reads_gradients();
}

bool IsCumulativeAttack(absl::string_view attack) {
  const std::optional<AttackTraits> traits = TraitsOfName(attack);
  return traits.has_value() && traits->cumulative();
}

double MeasuredAttack::auc() const {
  const double pooled = std::isfinite(pooled_auc) ? InvertedAuc(pooled_auc) : 0;
  return pooled > 0 && IsCumulativeAttack(attack) ? pooled : std::max(batches.steps > 0 ? batches.p95 : 0, pooled);
}

double MeasuredAttack::typical_auc() const {
  if (std::isfinite(pooled_auc)) {
    return InvertedAuc(pooled_auc);
  }
  return batches.steps > 0 ? batches.mean : 0;
}

bool IsStronger(const MeasuredAttack& a, const MeasuredAttack& b) { return Rank(a) < Rank(b); }

}  // namespace splitveil
