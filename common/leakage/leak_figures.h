// How much a score gives away over many examples, with what the sample leaves open.
#ifndef SPLITVEIL_COMMON_LEAKAGE_LEAK_FIGURES_H_
#define SPLITVEIL_COMMON_LEAKAGE_LEAK_FIGURES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

// P(X <= k) for X ~ Binomial(n, p), n >= 0, 0 <= p <= 1; to about 1e-13. 0 for k < 0, 1 for k >= n. Computed by
// Boost.Math, whose exceptions are off. Thread-safe, as all here.
double BinomialCdf(int64_t n, double p, int64_t k);

// One-sided limits of the probability behind `successes` of n >= 1 trials (Clopper and Pearson, Biometrika 1934): the
// truth lies below the lower limit, or above the upper one, with probability at most `risk`, in (0, 0.5), each.
double LowerBinomialLimit(int64_t successes, int64_t n, double risk);
double UpperBinomialLimit(int64_t successes, int64_t n, double risk);

// A figure in [0, 1] and its 95% interval.
struct Estimate {
  double value = 0, low = 0, high = 0;
};

struct LeakFigures {
  // Interval: DeLong et al., Biometrics 1988, on the logit scale; with less than 50 rows of a class Newcombe's,
  // Statistics in Medicine 2006, part 2, method 5.
  Estimate auc;
  // True positive rate of the threshold that a share of the negatives exceeds. If the AUC is below 0.5, of the
  // inverted score (InvertedAuc), unless the score finds more as it is.
  Estimate tpr_at_1_percent_fpr;
  Estimate tpr_at_01_percent_fpr;
  int64_t examples = 0, positives = 0;
};

// All figures of one score over `scores.size()` independent examples. Ties count half in the AUC, and interpolate
// linearly in the true positive rates. The intervals of the rates hold with at least 95%: they allow for the sampling
// of the negatives that set the threshold and of the positives. Errors: see LeakAuc.
absl::StatusOr<LeakFigures> MeasureLeak(absl::Span<const float> scores, absl::Span<const uint8_t> labels);

// Mean 0 and standard deviation 1, in place, so that batches whose scores differ in scale can be pooled; all 0 if
// they are equal. Scores that are not finite stay as they are and count for nothing.
void StandardizeScores(std::vector<float>& scores);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LEAK_FIGURES_H_
