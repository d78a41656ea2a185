// Summaries of a leak AUC over the steps of a run.
#ifndef SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
#define SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace splitveil {

// The leak AUC of a score, inverted where its AUC is below 0.5: 0.5 + |auc - 0.5|. An adversary inverts a score that
// points the wrong way. The one convention of every figure; ledgers keep AUCs as they were measured. NaN stays NaN.
double InvertedAuc(double auc);

// "norm 0.94" for a progress line: InvertedAuc, as every figure that a person reads.
std::string ProgressFigure(absl::string_view attack, double auc);

// All figures are of InvertedAuc batch by batch: an adversary may invert each batch's scores, and an attack that ranks
// one batch forwards and the next backwards leaks as much as one that always ranks forwards. So they exceed 0.5 by
// chance alone; what guessing reaches under the same convention is in guessing.h.
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

// Nearest-rank quantile: the smallest value with at least a share q of the values at or below it. 0 for no values.
double NearestRankQuantile(std::vector<double> values, double q);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SUMMARY_H_
