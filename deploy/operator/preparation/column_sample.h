// What the numbers of a column are like: their range and quantiles.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SAMPLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "deploy/operator/preparation/seeded_draws.h"

namespace splitveil {

// Of the numbers added. The least and the greatest are exact; quantiles are those of a sample.
struct NumberSummary {
  double least = 0, lower_quantile = 0, median = 0, upper_quantile = 0, greatest = 0;
  // From where to where a scale goes that single values far out do not move: ColumnSample::Summarize.
  double robust_minimum = 0, robust_maximum = 0;
};

// Keeps a uniform sample of up to kSize numbers (Vitter, "Random sampling with a reservoir", ACM TOMS 1985, algorithm
// R), 256 KiB: all of them as long as there are no more; then a quantile's rank is off by 0.06% of the numbers at 1%
// and 99%, and by 0.3% at the median (one standard deviation). The same numbers in the same order give the same sample.
// Not thread-safe.
class ColumnSample {
 public:
  static constexpr size_t kSize = 32768;
  static constexpr double kLowerQuantile = 0.01, kUpperQuantile = 1 - kLowerQuantile;

  // `column`: number of the column; no two share their draws.
  explicit ColumnSample(uint64_t column);

  // `number`: finite.
  void Add(double number);
  bool empty() const { return count_ == 0; }

  // Not of an empty one. A quantile is the innermost number of the sample beyond which no more than that share of it
  // lies: of three numbers or more, never the one that is farthest out. The robust range is from the lower to the upper
  // quantile; where these are equal, a column that is nearly constant, its other numbers count: from that value to
  // their quantiles, so that a column of zeros with a few ones has 0 to 1.
  NumberSummary Summarize() const;

 private:
  SeededDraws draws_;
  uint64_t count_ = 0;
  double least_ = 0, greatest_ = 0;
  std::vector<double> sample_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SAMPLE_H_
