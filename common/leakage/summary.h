// From scores and labels to the leak AUC, and from the AUCs of many batches to a figure of the run.
#ifndef SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
#define SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace splitveil {

struct RankedScore {
  float score = 0;    // Not NaN.
  uint8_t label = 0;  // 0 or 1.
};

// Sorts by score, ascending; what is tied stays in its order. -0 ties with 0. A radix sort on the bits of the scores,
// several times as fast as comparing. O(n) time and memory.
void SortByScore(std::vector<RankedScore>& scores);

// Exact area under the ROC curve, ties counted half (the Mann-Whitney statistic). `labels`: 0 or 1, as many as scores.
// Rows `excluded` are left out: what the adversary was told is no leak. Errors: InvalidArgument for different lengths
// or a NaN score; FailedPrecondition if one class is absent, since then there is no AUC.
absl::StatusOr<double> LeakAuc(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                               absl::Span<const uint32_t> excluded = {});

// The leak AUC of a score, inverted if its AUC is below 0.5: 0.5 + |auc - 0.5|. An adversary inverts a score that
// points the wrong way. The one convention of every figure; ledgers keep AUCs as they were measured. NaN stays NaN.
double InvertedAuc(double auc);

// "norm 0.94" for a progress line: InvertedAuc, as every figure that a person reads.
std::string ProgressFigure(absl::string_view attack, double auc);

// All figures are of InvertedAuc batch by batch: an adversary may invert each batch's scores, and an attack that ranks
// one batch forwards and the next backwards leaks as much as one that always ranks forwards. So they exceed 0.5 by
// chance alone; what guessing reaches under the same convention is in GuessingOver.
struct LeakSummary {
  double mean = 0;
  double mean_ci95 = 0;  // Half width of the mean's 95% interval (normal approximation over steps).
  double p95 = 0;        // 95% quantile, nearest rank.
  int64_t steps = 0;
};

// `aucs`: as measured, not inverted. All zero for none.
LeakSummary SummarizeLeak(const std::vector<double>& aucs);

// Half width of the 95% interval of the mean of `count` values (normal approximation); `squares`: sum of their squared
// distances from it. 0 for fewer than two.
double MeanInterval95(double squares, int64_t count);

// The rank, from 1, of the nearest-rank quantile of `count` values, at least one.
int64_t NearestRank(int64_t count, double q);

// The 0.975 quantile of the standard normal distribution: half the width of a two-sided 95% interval.
inline constexpr double kNormalQuantile975 = 1.959963984540054;

// Nearest-rank quantile: the smallest value with at least a share q of the values at or below it. 0 for no values.
double NearestRankQuantile(std::vector<double> values, double q);

// A value that occurs `count` times.
struct RepeatedValue {
  double value = 0;
  int64_t count = 1;
};
// The same of all occurrences.
double NearestRankQuantile(std::vector<RepeatedValue> values, double q);

// InvertedAuc of a random score over one batch. NaN: not known.
struct Guessing {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();  // What it reaches in one batch of twenty.
};

// Over batches of this many positives and negatives. The AUC of a random score is the Mann-Whitney statistic over
// positives * negatives, with mean 1/2 and variance (positives + negatives + 1) / (12 positives negatives) (Mann and
// Whitney, Annals of Mathematical Statistics 1947); taken as normal, whose mean distance from 1/2 is sqrt(2 / pi)
// standard deviations, which is off by less than 0.005 from 10 of each class on. At most 1; 1 if a class is empty.
Guessing GuessingOver(double positives, double negatives);

// Of values in [0, 1]: each of the first kMost, and of more how many lie in each of kMost equal bins, half a megabyte
// either way. Means are exact however many there are; quantiles up to kMost, and then too high by at most the width of
// a bin, 1.6e-5, so that a bound stays one. Not thread-safe.
class StepSeries {
 public:
  static constexpr size_t kMost = size_t{1} << 16;

  StepSeries() = default;
  StepSeries(std::initializer_list<double> values);

  // One that is no number, or lies outside, counts as the end that is nearest, NaN as 1. `times` >= 1.
  void Add(double value, int64_t times = 1);

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The latest value; 0 for none.
  double latest() const { return latest_; }
  // See NearestRankQuantile.
  double Quantile(double q) const;
  // As SummarizeLeak, of AUCs as measured.
  LeakSummary LeakOf() const;

  bool operator==(const StepSeries& other) const {
    return size_ == other.size_ && values_ == other.values_ && counts_ == other.counts_;
  }

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(values_, counts_, size_, latest_, leak_mean_, leak_squares_);
  }

 private:
  void Count(double value, int64_t times);

  std::vector<double> values_;   // All, or none once they are counted.
  std::vector<int64_t> counts_;  // [kMost], or empty until then.
  int64_t size_ = 0;
  double latest_ = 0;
  double leak_mean_ = 0, leak_squares_ = 0;  // Of InvertedAuc of what is counted: mean, and squares around it.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
