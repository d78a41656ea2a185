// What is left of a release once everything but the label is taken out of it: fit to be held against a claimed mu.
#ifndef SPLITVEIL_COMMON_LEAKAGE_LABEL_RESIDUAL_H_
#define SPLITVEIL_COMMON_LEAKAGE_LABEL_RESIDUAL_H_

#include <limits>
#include <vector>

#include "common/leakage/conditional_likelihood.h"
#include "common/matrix/matrix.h"

namespace splitveil {

// Of one row. Where the noise is as stated, `value` has the law N(0, 1) if the row is negative, whatever its features,
// p and v: a feature that predicts the label cannot move it, as it does log ratios, whose scale and centre differ from
// row to row. If the row is positive, and both classes get the same noise, N(shift, 1).
struct LabelResidual {
  double value = std::numeric_limits<double>::quiet_NaN();
  double shift = 0;

  bool is_known() const { return shift > 0; }
};

// One of each row of `released` [batch, d], as the head's; none is known where the label moves nothing (v = 0).
//
// Noise stated on gradients: the place of the row along S^-1 v, S the covariance of a negative's noise, from where a
// negative would stand, in units of its standard deviation; the best linear test of one label (Fisher, Ann. Eugenics
// 1936). Noise on labels (`label_mu` > 0, the mu of one release): label_mu times the noised label, which
// ConditionalLogRatios takes out of the row. Not known there where rows are clipped, which cuts off noise by an amount
// that p decides, nor outside [kLeastProbability, 1 - kLeastProbability], where the posterior of a label
// (head.releases_posterior) is lost to rounding. Of `head.places`, label_mu times separation times place, where that is
// exact: the mu of a pair of labels that are less than the largest distance apart is as much smaller. Neither: none is
// known. Thread-safe.
std::vector<LabelResidual> LabelResiduals(ConstMatrixView released, const ReleasingHead& head, double label_mu);

inline constexpr double kLeastProbability = 1e-3;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LABEL_RESIDUAL_H_
