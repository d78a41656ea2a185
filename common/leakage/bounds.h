// What sum_kl lets an attack reach, and whether a measured AUC certainly exceeds its bound.
#ifndef SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_
#define SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace splitveil {

// Two Gaussians in R^d whose means differ by dg and whose covariances share their axes: variance `along` on the line of
// dg and `across` on each of the d - 1 directions orthogonal to it. Class c of a gradient with variance var_c that is
// perturbed as Theorem 2 says has along_c = lambda1_c + var_c and across_c = lambda2_c + var_c
// (Li et al., ICLR 2022, section 4.2).
struct GaussianClasses {
  int64_t d = 1;
  double dg_squared = 0;  // ||dg||^2
  double along_neg = 0, across_neg = 0;
  double along_pos = 0, across_pos = 0;
};

// KL(P1 || P0) + KL(P0 || P1)
//   = 1/2 [ (d-1) (b0-b1)^2 / (b0 b1) + (a0-a1)^2 / (a0 a1) + ||dg||^2 (1/a0 + 1/a1) ], a = along, b = across.
// The objective of equation (15) less its constant 2d, written so that equal classes give exactly 0 and nothing
// cancels. Limits: two variances of zero are equal and add nothing; zero against positive adds +inf, as does ||dg|| > 0
// along a variance of zero. NaN, negative variances and d < 1 give +inf (fail closed).
double SumKl(const GaussianClasses& classes);

// Largest AUC of any scoring function when the symmetrised KL divergence is sum_kl (Li et al., ICLR 2022, Theorem 1):
// 1/2 + sqrt(sum_kl)/2 - sum_kl/8 below 4, else 1. NaN and negative input give 1 (fail closed).
double AucBound(double sum_kl);

// AUC of the likelihood ratio between two Gaussian classes of the same covariance whose symmetrised KL divergence is
// sum_kl: Phi(sqrt(sum_kl / 2)), the exact worst case if d'^2 = sum_kl. The divergences of independent releases of
// an example add, so with their sum it is the AUC of an adversary that accumulates them. NaN and negative input
// give 1.
double GaussianAucBound(double sum_kl);

// The probability that an honest run is called "broken", over all of its epochs and attacks and its claim check. Runs
// of one privacy account share their noise, and with it a false alarm.
inline constexpr double kFalseAlarmRisk = 1e-4;
// Of it, what all tests of attacks against bounds share. The rest is the claim check's (claim_checker.h).
inline constexpr double kAttacksRisk = 4e-5;

// An excess by less than this does not matter.
inline constexpr double kBoundTolerance = 0.005;

// What one attack read in one epoch.
struct MeasuredAuc {
  absl::string_view attack;  // As ledgers name it.
  int64_t epoch = 0;         // From 0.
  double auc = 0;            // As measured; an adversary inverts a score whose AUC is below 0.5. NaN: not measured.
  int64_t examples = 0, positives = 0;
};

// The share of kAttacksRisk that this attack's test after this epoch may spend: in epoch e, from 0, the attack's own
// share over (e + 1)(e + 2), which adds up to the share however long a run is. The two attacks that know all but the
// label and the noise have three quarters, since they find what is wrong first; all others divide the rest.
double ShareOfRisk(absl::string_view attack, int64_t epoch);

// Not below the probability that an honest score reaches an AUC of at least `auc` over so many examples, where `bound`,
// in [0.5, 1), is GaussianAucBound. 1 if that is not small, and for 0 of either class.
//
// The largest of three laws. Two unit Gaussians that lie mu = sqrt(2) Phi^-1(bound) apart: no score of a mu-GDP
// mechanism (common/privacy/gaussian_privacy.h) exceeds that one. For let V be the share of the negatives' law below a
// score, ties split at random. V is uniform on negatives, and on positives P(V > 1 - a) is the power of a test of level
// a, at most that of the best test, which is P(V' > 1 - a) of the Gaussian pair. So V' is stochastically larger, and so
// is the AUC, which depends on the V alone and increases in those of positives. Ties that count half are the mean over
// such splits, which no convex function of the AUC exceeds: their tail is at most e times as large. And two Gaussians
// on a line that differ in variance alone, either way, by as much divergence: classes of unequal covariance have a
// smaller AUC than `bound`, but more weight at the end, which tells with few examples.
//
// Computed by saddle point (Lugannani and Rice, Adv. Appl. Prob. 1980) from the AUC's projection on single examples
// (Hajek), with as many of each class as give the AUC's exact variance; that has no end at 1, and so is too large near
// it. DeLong's variance would be estimated from the same examples: of three positives it is often near zero.
double AucTail(double auc, double bound, int64_t positives, int64_t negatives);

// Whether the attack certainly read more than `gaussian_auc_bound` by kBoundTolerance: by a test in either direction
// that errs with probability ShareOfRisk at most. False if either is NaN: nothing is bounded, or nothing measured.
// Thread-safe, as all here; some 0.1 ms.
bool ExceedsGaussianAucBound(const MeasuredAuc& measured, double gaussian_auc_bound);

// The bound above which that test would not have called the AUC too large: the least AUC that is certain. 0.5 if
// nothing is, NaN if nothing was measured. Some 2 ms.
double CertainAuc(const MeasuredAuc& measured);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_BOUNDS_H_
