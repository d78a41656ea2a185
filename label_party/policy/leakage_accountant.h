// Leakage adds up: what all releases of an example tell an adversary that accumulates them (architecture rule 6).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_LEAKAGE_ACCOUNTANT_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_LEAKAGE_ACCOUNTANT_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

// Adds the symmetrised KL divergences of the releases of each example. The noise of different releases is independent,
// so the divergence of their joint distribution is the sum; Theorem 1 (AucBound) and the Gaussian AUC hold on it. That
// the classes are Gaussian with the solved moments is the model's assumption, not a fact about the data. A release
// without a known divergence (NaN, infinite) makes the sum of its examples infinite. Not thread-safe. 8 bytes per
// example.
class LeakageAccountant {
 public:
  // `examples`: aligned examples of the run.
  explicit LeakageAccountant(int64_t examples) : sum_kls_(static_cast<size_t>(examples), 0) {}

  // The largest sum over the releases of one of the examples at `positions`: that of the most exposed.
  double MaxOf(absl::Span<const uint32_t> positions) const;
  // Accounts for one more release of them at `sum_kl`. Returns max_sum_kl().
  double Release(absl::Span<const uint32_t> positions, double sum_kl);
  // Accounts for a release of them by a method whose releases, however many, have `run_sum_kl` together: it stands for
  // all of them and counts once. Returns max_sum_kl().
  double ReleaseOfRun(absl::Span<const uint32_t> positions, double run_sum_kl);

  // The largest sum over all examples so far.
  double max_sum_kl() const { return max_sum_kl_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(sum_kls_, max_sum_kl_);
  }

  std::vector<double> sum_kls_;  // By aligned position.
  double max_sum_kl_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_LEAKAGE_ACCOUNTANT_H_
