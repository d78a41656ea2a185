// One observer's scores of a whole epoch: every example once, so that rates far out in the tail can be measured.
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
#include "label_party/audit/epoch_bounds.h"

namespace splitveil {

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
