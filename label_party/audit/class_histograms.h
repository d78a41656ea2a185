// How the norms and cosines of one epoch's cut gradients are distributed in each class, for the report of the label
// party.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_CLASS_HISTOGRAMS_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_CLASS_HISTOGRAMS_H_

#include <array>
#include <cereal/access.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/ledger/ledger.h"
#include "label_party/audit/label_side_audit.h"

namespace splitveil {

// Not thread-safe.
class ClassHistograms {
 public:
  static constexpr int64_t kBins = 40;

  // Takes up one release: norms of the clean and the released rows, and, where the batch has a hint row, their cosines
  // with its clean gradient. `own`: what the attacks have already scored of it.
  void Add(const ReleasedBatch& batch, const ReleaseEvidence& evidence, absl::Span<const BatchScores> own);

  // The histograms of everything taken up since the last call, empty bins left out. Bins divide [-1, 1] for cosines;
  // for norms [0, q] with q the 99.5% quantile over both classes, and the last bin takes what lies above.
  std::vector<DistributionRow> Finish(uint32_t epoch);

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(values_);
  }

  // Values of the two classes.
  using Values = std::array<std::vector<float>, 2>;
  void AddScores(const std::string& quantity, absl::Span<const float> scores, const ReleasedBatch& batch);

  std::map<std::string, Values> values_;  // By quantity, as DistributionRow names it.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_CLASS_HISTOGRAMS_H_
