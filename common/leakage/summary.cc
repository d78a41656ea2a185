#include "common/leakage/summary.h"

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
#include "absl/strings/str_format.h"

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
// IEEE floats of one sign are ordered as their bits read as integers; negative ones in reverse.
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
  // An AUC of 0.5 in place of the error would count as a measurement of no leak.
  if (negatives == 0 || positives == 0) {
    return absl::FailedPreconditionError("leak AUC: both classes are needed");
  }
  return 0.5 * static_cast<double>(doubled_wins) / (static_cast<double>(negatives) * static_cast<double>(positives));
}

namespace {

// Bins are as many as the values kept before, so that memory stays the same when they replace them.
constexpr double kBins = StepSeries::kMost;

// Upper edge of the bin in which the value of this rank, from 1, lies; `counts` from the lowest bin to the highest.
// The upper edge, never the middle: a quantile that is held against a bound may be too high but not too low.
double EdgeOf(const std::vector<int64_t>& counts, int64_t rank, double lowest, double width) {
  int64_t below = 0;
  size_t bin = 0;
  while (bin + 1 < counts.size() && below + counts[bin] < rank) {
    below += counts[bin++];
  }
  return lowest + static_cast<double>(bin + 1) * width;
}

}  // namespace

double InvertedAuc(double auc) { return 0.5 + std::abs(auc - 0.5); }

std::string ProgressFigure(absl::string_view attack, double auc) {
  return absl::StrFormat("%s %.2f", attack, InvertedAuc(auc));
}

LeakSummary SummarizeLeak(const std::vector<double>& aucs) {
  LeakSummary summary;
  summary.steps = static_cast<int64_t>(aucs.size());
  if (aucs.empty()) {
    return summary;
  }
  const double steps = static_cast<double>(aucs.size());
  std::vector<double> leaks;
  leaks.reserve(aucs.size());
  // Inverted batch by batch: an adversary may turn each batch's scores round by itself.
  for (double auc : aucs) {
    leaks.push_back(InvertedAuc(auc));
    summary.mean += leaks.back() / steps;
  }
  double squares = 0;
  for (double leak : leaks) {
    squares += (leak - summary.mean) * (leak - summary.mean);
  }
  summary.mean_ci95 = MeanInterval95(squares, summary.steps);
  summary.p95 = NearestRankQuantile(std::move(leaks), 0.95);
  return summary;
}

double MeanInterval95(double squares, int64_t count) {
  const auto values = static_cast<double>(count);
  return count < 2 ? 0 : kNormalQuantile975 * std::sqrt(squares / (values - 1) / values);
}

int64_t NearestRank(int64_t count, double q) {
  // The tolerance keeps q = 0.95 of 20 values, 19.000000000000004 in binary, at rank 19.
  const auto size = static_cast<double>(count);
  return static_cast<int64_t>(std::clamp(std::ceil(q * size - size * 1e-12), 1.0, size));
}

double NearestRankQuantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto nth = values.begin() + (NearestRank(static_cast<int64_t>(values.size()), q) - 1);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

double NearestRankQuantile(std::vector<RepeatedValue> values, double q) {
  std::sort(values.begin(), values.end(),
            [](const RepeatedValue& a, const RepeatedValue& b) { return a.value < b.value; });
  int64_t count = 0;
  for (const RepeatedValue& each : values) {
    count += each.count;
  }
  int64_t left = count == 0 ? 0 : NearestRank(count, q);
  for (const RepeatedValue& each : values) {
    left -= each.count;
    if (left <= 0) {
      return each.value;
    }
  }
  return 0;
}

Guessing GuessingOver(double positives, double negatives) {
  if (!(positives > 0) || !(negatives > 0)) {
    return {1, 1};
  }
  constexpr double kNormalMeanDistance = 0.7978845608028654;  // Of a standard normal number from 0: sqrt(2 / pi).
  const double deviation = std::sqrt((positives + negatives + 1) / (12 * positives * negatives));
  return {std::min(1.0, 0.5 + kNormalMeanDistance * deviation), std::min(1.0, 0.5 + kNormalQuantile975 * deviation)};
}

StepSeries::StepSeries(std::initializer_list<double> values) {
  for (const double value : values) {
    Add(value);
  }
}

// NaN counts as 1, the worst: a figure that could not be computed must not make a run look better.
void StepSeries::Add(double value, int64_t times) {
  latest_ = std::isnan(value) ? 1 : std::clamp(value, 0.0, 1.0);
  if (counts_.empty() && size_ + times <= static_cast<int64_t>(kMost)) {
    values_.insert(values_.end(), static_cast<size_t>(times), latest_);
    size_ += times;
    return;
  }
  // From here on bins: a run may have millions of steps, and memory must not grow with them.
  if (counts_.empty()) {
    counts_.resize(kMost);
    size_ = 0;
    for (const double known : values_) {
      Count(known, 1);
    }
    values_ = {};
  }
  Count(latest_, times);
}

void StepSeries::Count(double value, int64_t times) {
  counts_[std::min(static_cast<size_t>(value * kBins), kMost - 1)] += times;
  size_ += times;
  const double leak = InvertedAuc(value);
  const double apart = leak - leak_mean_;  // Welford, Technometrics 1962.
  leak_mean_ += apart * static_cast<double>(times) / static_cast<double>(size_);
  leak_squares_ += static_cast<double>(times) * apart * (leak - leak_mean_);
}

double StepSeries::Quantile(double q) const {
  return counts_.empty() ? NearestRankQuantile(values_, q) : EdgeOf(counts_, NearestRank(size_, q), 0, 1 / kBins);
}

LeakSummary StepSeries::LeakOf() const {
  if (counts_.empty()) {
    return SummarizeLeak(values_);
  }
  constexpr size_t kHalf = kMost / 2;
  std::vector<int64_t> inverted(kHalf);  // Bins from 0.5 to 1.
  for (size_t bin = 0; bin < kHalf; ++bin) {
    // An AUC below 0.5 leaks as much as its mirror image, so both bins count for one.
    inverted[bin] = counts_[kHalf + bin] + counts_[kHalf - 1 - bin];
  }
  LeakSummary summary;
  summary.steps = size_;
  summary.mean = leak_mean_;
  summary.mean_ci95 = MeanInterval95(leak_squares_, size_);
  summary.p95 = EdgeOf(inverted, NearestRank(size_, 0.95), 0.5, 1 / kBins);
  return summary;
}

}  // namespace splitveil
