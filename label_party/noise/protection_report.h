// What a batch's protection comes to: the ledger's row.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_PROTECTION_REPORT_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_PROTECTION_REPORT_H_

#include <limits>
#include <string>

#include "label_party/noise/class_moments.h"

namespace splitveil {

// Variances of the noise that the rows of each class get: lambda1 along the difference of the class means, lambda2 on
// each direction across it.
struct ClassNoise {
  double lambda1_neg = 0, lambda2_neg = 0;
  double lambda1_pos = 0, lambda2_pos = 0;
};

// What is planned for one batch; the ledger's `protection` row. NaN: does not apply to the method.
struct ProtectionReport {
  // none, iso, max_norm, marvell, label_dp, sparsify, discretize; with "+fallback" where running or isotropic estimates
  // serve.
  std::string method;
  double u, v;   // Variance of a component within class 0 and class 1.
  double g;      // ||dg||^2, squared distance of the class means.
  double p;      // Share of positives.
  double power;  // Noise power P.
  double lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos;
  // Of the perturbed classes under the Gaussian model; label_dp: of the randomised labels, or of Gaussian classes with
  // their AUC where that is more.
  double sum_kl;
  // The divergence of all that the run may release of an example, however often: it counts once. NaN: releases add as
  // they are made.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();
  // Of this release and those of earlier epochs, where run_sum_kl is known.
  double sum_kl_so_far = std::numeric_limits<double>::quiet_NaN();
  // Whether all releases of an example are made of the same noised label.
  bool releases_repeat = false;
};

// Only the method; every number is NaN, which the bounds read as "no bound".
ProtectionReport EmptyReport(const std::string& method);

// The method's noise and the divergence it leaves between the classes of `moments`, of gradients with d components. The
// moments must be of two classes.
ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const ClassNoise& noise);

// For methods that state no noise of their own: the batch's moments where it has both classes, all else NaN.
ProtectionReport DescribeBatch(const std::string& method, const ClassMoments& moments);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_PROTECTION_REPORT_H_
