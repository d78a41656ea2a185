// The binomial distribution, and what a count says about the probability behind it.
#ifndef SPLITVEIL_COMMON_LEAKAGE_BINOMIAL_H_
#define SPLITVEIL_COMMON_LEAKAGE_BINOMIAL_H_

#include <cstdint>

namespace splitveil {

// P(X <= k) for X ~ Binomial(n, p), n >= 0, 0 <= p <= 1; to about 1e-13. 0 for k < 0, 1 for k >= n. Computed by
// Boost.Math, whose exceptions are off. Thread-safe, as all here.
double BinomialCdf(int64_t n, double p, int64_t k);

// One-sided limits of the probability behind `successes` of n >= 1 trials (Clopper and Pearson, Biometrika 1934): the
// truth lies below the lower limit, or above the upper one, with probability at most `risk`, in (0, 0.5), each.
double LowerBinomialLimit(int64_t successes, int64_t n, double risk);
double UpperBinomialLimit(int64_t successes, int64_t n, double risk);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_BINOMIAL_H_
