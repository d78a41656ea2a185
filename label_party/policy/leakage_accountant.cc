#include "label_party/policy/leakage_accountant.h"

#include <algorithm>
#include <limits>

namespace splitveil {
namespace {

// What is unknown counts as everything.
double Known(double sum_kl) { return sum_kl >= 0 ? sum_kl : std::numeric_limits<double>::infinity(); }

}  // namespace

double LeakageAccountant::MaxOf(absl::Span<const uint32_t> positions) const {
  double largest = 0;
  for (uint32_t position : positions) {
    largest = std::max(largest, sum_kls_[position]);
  }
  return largest;
}

double LeakageAccountant::Release(absl::Span<const uint32_t> positions, double sum_kl) {
  for (uint32_t position : positions) {
    sum_kls_[position] += Known(sum_kl);
    max_sum_kl_ = std::max(max_sum_kl_, sum_kls_[position]);
  }
  return max_sum_kl_;
}

double LeakageAccountant::ReleaseOfRun(absl::Span<const uint32_t> positions, double run_sum_kl) {
  for (uint32_t position : positions) {
    sum_kls_[position] = std::max(sum_kls_[position], Known(run_sum_kl));
    max_sum_kl_ = std::max(max_sum_kl_, sum_kls_[position]);
  }
  return max_sum_kl_;
}

}  // namespace splitveil
