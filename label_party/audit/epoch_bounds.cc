#include "label_party/audit/epoch_bounds.h"

#include <limits>

#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"

namespace splitveil {

void EpochBounds::Add(double sum_kl, double accumulated_sum_kl, bool of_labels) {
  of_labels_ = of_labels_ || of_labels;
  ++steps_;
  gaussian_sum_ += GaussianAucBound(sum_kl);
  theorem1_sum_ += AucBound(sum_kl);
  accumulated_sum_kl_ = accumulated_sum_kl;
}

AucBounds EpochBounds::For(const std::string& layer, v1::Attack attack) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const AttackTraits traits = TraitsOf(attack);
  if (layer != "cut" || !traits.reads_gradients() || steps_ == 0 ||
      (of_labels_ && traits.needs != SideInformation::kReleasingHead)) {
    return {kNone, kNone};
  }
  if (traits.cumulative()) {
    return {GaussianAucBound(accumulated_sum_kl_), AucBound(accumulated_sum_kl_)};
  }
  const double steps = static_cast<double>(steps_);
  return {gaussian_sum_ / steps, theorem1_sum_ / steps};
}

}  // namespace splitveil
