// How the numbers of a column become numbers in [0, 1].
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NUMBER_SCALING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NUMBER_SCALING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "deploy/operator/preparation/column_sketches.h"

#include "splitveil/v1/preprocessing.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Of the numbers added. The least and the greatest are exact; quantiles are those of a sample.
struct NumberSummary {
  double least = 0, lower_quantile = 0, median = 0, upper_quantile = 0, greatest = 0;
  // From where to where a scale goes that single values far out do not move: ColumnSample::Summarize.
  double robust_minimum = 0, robust_maximum = 0;
};

// What scales are fitted on: the ends, and a sample of up to kSize numbers, 256 KiB. With more, a quantile's rank is
// off by 0.06% of the numbers at 1% and 99%, and by 0.3% at the median (one standard deviation). Not thread-safe.
class ColumnSample {
 public:
  static constexpr size_t kSize = 32768;
  static constexpr double kLowerQuantile = 0.01, kUpperQuantile = 1 - kLowerQuantile;

  // `column`: number of the column; no two share their draws.
  explicit ColumnSample(uint64_t column);

  // `number`: finite.
  void Add(double number);
  bool empty() const { return sample_.numbers().empty(); }

  // Not of an empty one. A quantile is the innermost number of the sample beyond which no more than that share of it
  // lies: of three numbers or more, never the one that is farthest out. The robust range is from the lower to the upper
  // quantile; where these are equal, a column that is nearly constant, its other numbers count: from that value to
  // their quantiles, so that a column of zeros with a few ones has 0 to 1.
  NumberSummary Summarize() const;
  // Not of an empty one. The 101 quantiles at 0%, 1%, ... 100%, interpolated (Hyndman and Fan, "Sample quantiles in
  // statistical packages", 1996, definition 7); the first and the last are exact.
  std::vector<double> Percentiles() const;
  // Not of an empty one. The median of the numbers strictly between the two; NaN if there are none.
  double MedianBetween(double from, double to) const;

 private:
  NumberSample sample_;
  double least_ = 0, greatest_ = 0;
};

// What spreads a column's numbers over [0, 1]. `quantile` gives theirs at a share in [0, 1]. ROBUST, unless their
// median lies in the outer eighth of the range from 1% to 99%: then LOG. QUANTILE if the middle half of them would fill
// less than a tenth of [0, 1] even so. Only the numbers between the ends of the range count, and fewer than ten
// different ones are left at ROBUST.
v1::TableSchema::Scaling ProposedScaling(absl::FunctionRef<double(double)> quantile);

// Fills in all that encoding and comparing numbers needs but their counts. `sample`: of the training part; may be
// empty. With MIN_MAX the range is already there.
void FitScaling(const ColumnSample& sample, v1::TableSchema::Scaling kind, v1::NumericScaling& scaling);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NUMBER_SCALING_H_
