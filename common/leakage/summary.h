// Summaries of a leak AUC over the steps of a run, as the papers state them.
#ifndef SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
#define SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_

#include <cstdint>
#include <vector>

namespace splitveil {

struct LeakSummary {
  double mean = 0;       // Of the AUC.
  double mean_ci95 = 0;  // Half width of the mean's 95% interval (normal approximation over steps).
  double p95 = 0;        // 95% quantile, nearest rank, of 0.5 + |AUC - 0.5|.
  int64_t steps = 0;
};

LeakSummary SummarizeLeak(const std::vector<double>& aucs);

// Nearest-rank quantile: the smallest value with at least a share q of the values at or below it. 0 for no values.
double NearestRankQuantile(std::vector<double> values, double q);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
