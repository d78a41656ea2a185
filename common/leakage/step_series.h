// A figure of every step of a run, in memory that does not grow with the run.
#ifndef SPLITVEIL_COMMON_LEAKAGE_STEP_SERIES_H_
#define SPLITVEIL_COMMON_LEAKAGE_STEP_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/leakage/summary.h"

namespace splitveil {

// Of values in [0, 1]: each of the first kMost, and of more how many lie in each of kMost equal bins, half a megabyte
// either way. Means are exact however many there are; quantiles up to kMost, and then too high by at most the width of
// a bin, 1.6e-5, so that a bound stays one. Not thread-safe.
class StepSeries {
 public:
  static constexpr size_t kMost = size_t{1} << 16;

  StepSeries() = default;
  StepSeries(std::initializer_list<double> values);

  // One that is no number, or lies outside, counts as the end that is nearest, NaN as 1.
  void Add(double value);

  int64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The latest value; 0 for none.
  double latest() const { return latest_; }
  // As NearestRankQuantile.
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
  void Count(double value);

  std::vector<double> values_;   // All, or none once they are counted.
  std::vector<int64_t> counts_;  // [kMost], or empty until then.
  int64_t size_ = 0;
  double latest_ = 0;
  double leak_mean_ = 0, leak_squares_ = 0;  // Of InvertedAuc of what is counted: mean, and squares around it.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_STEP_SERIES_H_
