// The figures of an epoch's attacks: every example's score once, and what the noise of the epoch allows.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_POOL_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_POOL_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/attack_traits.h"
#include "common/ledger/ledger.h"

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

// Not thread-safe.
class EpochPool {
 public:
  // Examples kept of each layer and attack, at most. The order within an epoch is a joint random permutation, so the
  // first ones are a random sample.
  static constexpr size_t kMaxExamples = 2'000'000;

  // Takes up a batch's scores, finite, without the rows `left_out`. Scores of attacks that are not cumulative
  // are standardised first: an adversary that knows no more than the batch cannot tell batches apart by their scale.
  // Log ratios given all that is behind a release stay as they are.
  void Add(const std::string& layer, AttackVariant attack, std::vector<float> scores, absl::Span<const uint8_t> labels,
           absl::Span<const uint32_t> left_out);

  // Figures of everything taken up since the last call, as rows of the ledger without their observer; series with one
  // class have NaN figures.
  std::vector<EpochLeakRow> Finish(uint32_t epoch, const EpochBounds& bounds);

  bool empty() const { return series_.empty(); }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(series_);
  }

  struct Series {
    std::vector<float> scores;
    std::vector<uint8_t> labels;

    template <typename Archive>
    void serialize(Archive& archive) {
      archive(scores, labels);
    }
  };
  std::map<std::pair<std::string, AttackVariant>, Series> series_;
};

// One row of figures. `gaussian_auc_bound` and `auc_bound`: what the noise allows; NaN where that is no bound for the
// attack.
EpochLeakRow MeasureEpochLeak(absl::Span<const float> scores, absl::Span<const uint8_t> labels);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_EPOCH_POOL_H_
