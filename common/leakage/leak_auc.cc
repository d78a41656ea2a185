#include "common/leakage/leak_auc.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr int kDigitBits = 11;
constexpr int kDigits = 3;  // Of 32 bits.
constexpr size_t kBuckets = size_t{1} << kDigitBits;

struct Keyed {
  uint32_t key;
  RankedScore ranked;
};

// Orders as the numbers do: those below zero with all bits turned over, the others above them.
uint32_t OrderedBits(float score) {
  // -0 and 0 are equal as scores and must tie; their bits differ.
  const float zero_is_positive = score + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &zero_is_positive, sizeof bits);
  return (bits & 0x80000000) != 0 ? ~bits : bits | 0x80000000;
}

}  // namespace

void SortByScore(std::vector<RankedScore>& scores) {
  std::vector<Keyed> from(scores.size()), to(scores.size());
  std::array<std::array<uint32_t, kBuckets>, kDigits> starts = {};
  for (size_t i = 0; i < scores.size(); ++i) {
    from[i] = {OrderedBits(scores[i].score), scores[i]};
    for (int digit = 0; digit < kDigits; ++digit) {
      ++starts[digit][(from[i].key >> (digit * kDigitBits)) % kBuckets];
    }
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t start = 0;
    for (uint32_t& bucket : starts[digit]) {
      start += std::exchange(bucket, start);
    }
    // Stable in each digit, which is what makes the digits' order the numbers' order.
    for (const Keyed& item : from) {
      to[starts[digit][(item.key >> (digit * kDigitBits)) % kBuckets]++] = item;
    }
    from.swap(to);
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = from[i].ranked;
  }
}

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
    // The adversary was told these labels: to count them would overstate the leak.
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
