#include "label_party/policy/leakage_accountant.h"

#include <algorithm>
#include <limits>

namespace splitveil {
namespace {

// What is unknown counts as everything.
double Known(double sum_kl) { return sum_kl >= 0 ? sum_kl : std::numeric_limits<double>::infinity(); }

}  // namespace

double LeakageAccountant::MaxAfter(absl::Span<const uint32_t> positions, double sum_kl) const {
  double largest = max_sum_kl_;
  for (uint32_t position : positions) {
    largest = std::max(largest, sum_kls_[position] + Known(sum_kl));
  }
  return largest;
}

double LeakageAccountant::Release(absl::Span<const uint32_t> positions, double sum_kl) {
  max_sum_kl_ = MaxAfter(positions, sum_kl);
  for (uint32_t position : positions) {
    sum_kls_[position] += Known(sum_kl);
  }
  return max_sum_kl_;
}

}  // namespace splitveil
