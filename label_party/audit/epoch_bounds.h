// What the noise of one epoch's releases allows any adversary.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_BOUNDS_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_BOUNDS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <string>

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// Two bounds on a leak AUC; NaN where there is none.
struct AucBounds {
  double gaussian = 0;  // GaussianAucBound: exact for Gaussian classes.
  double theorem1 = 0;  // AucBound.
};

// Not thread-safe.
class EpochBounds {
 public:
  // Takes up one release. sum_kl: its divergence, NaN where the method states none (then nothing is bounded);
  // accumulated_sum_kl: the largest sum over the releases of one example so far. `of_labels`: the divergence is that of
  // the labels that releases are made of, not of gradients: it bounds what they add to what an adversary knows
  // otherwise, and so the attacks alone that take the prediction out.
  void Add(double sum_kl, double accumulated_sum_kl, bool of_labels = false);

  // For an attack at the cut layer: the means of the steps' bounds, or for a cumulative one those of all releases so
  // far. NaN for another layer, whose gradients also depend on the non-label party's own features, for attacks that
  // take more than gradients, and before the first release.
  AucBounds For(const std::string& layer, v1::Attack attack) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(steps_, of_labels_, gaussian_sum_, theorem1_sum_, accumulated_sum_kl_);
  }

  int64_t steps_ = 0;
  bool of_labels_ = false;
  double gaussian_sum_ = 0, theorem1_sum_ = 0;
  double accumulated_sum_kl_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_BOUNDS_H_
