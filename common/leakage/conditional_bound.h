// What no adversary can exceed on any one example of a batch, whatever it knows of the others and of the model.
#ifndef SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_BOUND_H_
#define SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_BOUND_H_

#include "common/leakage/conditional_likelihood.h"

namespace splitveil {

// The AUC at which one label is told from the other by what is released of a row, given all of `head` (v and p of the
// row, the law of the noise), for the most exposed row of the batch: two Gaussians whose means lie (p - 0) v and
// (p - 1) v, clipped, with the noise of either class. With equal noise it is exact, GaussianAucBound of their
// symmetrised KL divergence; else Theorem 1 on that. Nothing is assumed of the classes, so it holds for activations
// that the peer has made up; it depends on no draw. Of this release alone: those of several epochs add.
//
// 1 where the noise is not stated, `head` is of releases that repeat, of a posterior or of pairs (`places`), v is not
// given, and where a row's label moves it across all noise. Reads the part of `head` down to noise_direction.
// Thread-safe.
double ConditionalAucBound(const ReleasingHead& head);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_CONDITIONAL_BOUND_H_
