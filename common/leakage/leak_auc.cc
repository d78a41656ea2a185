#include "common/leakage/leak_auc.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/ranked_scores.h"

namespace splitveil {

absl::StatusOr<double> LeakAuc(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                               absl::Span<const uint32_t> excluded) {
  const int64_t rows = static_cast<int64_t>(scores.size());
  if (labels.size() != scores.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("leak AUC: expected as many labels as scores, found ", labels.size(), " and ", scores.size()));
  }
  for (uint32_t row : excluded) {
    if (row >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("leak AUC: excluded row ", row, " is not among ", rows, " rows"));
    }
  }
  std::vector<RankedScore> ranked;
  ranked.reserve(scores.size());
  for (int64_t i = 0; i < rows; ++i) {
    if (std::find(excluded.begin(), excluded.end(), i) != excluded.end()) {
      continue;
    }
    if (std::isnan(scores[i])) {
      return absl::InvalidArgumentError(absl::StrCat("leak AUC: score ", i, " is not a number"));
    }
    if (labels[i] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("leak AUC: label ", i, " is neither 0 nor 1"));
    }
    ranked.push_back({scores[i], labels[i]});
  }
  SortByScore(ranked);

  // Twice the Mann-Whitney count, so that a tie (one half) stays an integer and the sum exact.
  uint64_t doubled_wins = 0;
  uint64_t negatives = 0;
  uint64_t positives = 0;
  for (size_t begin = 0; begin < ranked.size();) {
    uint64_t tied_negatives = 0;
    uint64_t tied_positives = 0;
    size_t end = begin;
    for (; end < ranked.size() && ranked[end].score == ranked[begin].score; ++end) {
      (ranked[end].label != 0 ? tied_positives : tied_negatives) += 1;
    }
    doubled_wins += tied_positives * (2 * negatives + tied_negatives);
    negatives += tied_negatives;
    positives += tied_positives;
    begin = end;
  }
  if (negatives == 0 || positives == 0) {
    return absl::FailedPreconditionError("leak AUC: both classes are needed");
  }
  return 0.5 * static_cast<double>(doubled_wins) / (static_cast<double>(negatives) * static_cast<double>(positives));
}

}  // namespace splitveil
