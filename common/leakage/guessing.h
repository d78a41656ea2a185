// What guessing reaches by chance.
#ifndef SPLITVEIL_COMMON_LEAKAGE_GUESSING_H_
#define SPLITVEIL_COMMON_LEAKAGE_GUESSING_H_

#include <limits>

namespace splitveil {

// InvertedAuc of a random score over one batch. NaN: not known.
struct Guessing {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double p95 = std::numeric_limits<double>::quiet_NaN();  // What it reaches in one batch of twenty.
};

// Over batches of this many positives and negatives. The AUC of a random score is the Mann-Whitney statistic over
// positives * negatives, with mean 1/2 and variance (positives + negatives + 1) / (12 positives negatives) (Mann and
// Whitney, Annals of Mathematical Statistics 1947); taken as normal, whose mean distance from 1/2 is sqrt(2 / pi)
// standard deviations, which is off by less than 0.005 from 10 of each class on. At most 1; 1 where a class is empty.
Guessing GuessingOver(double positives, double negatives);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_GUESSING_H_
