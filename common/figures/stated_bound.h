// Which bounds a run states: those that promise something, and those that are proved.
#ifndef SPLITVEIL_COMMON_FIGURES_STATED_BOUND_H_
#define SPLITVEIL_COMMON_FIGURES_STATED_BOUND_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace splitveil {

// A bound on an AUC from here on is printed as 1.000, and promises nothing.
inline constexpr double kNoPromise = 0.9995;

// Whether `bound` exists and is below kNoPromise.
bool Promises(const std::optional<double>& bound);

// Whether the bound of a run with `protection`, as ledgers name it, holds for any adversary, model and data. Every
// other bound assumes that the gradients of each class are Gaussian.
bool IsBoundProved(absl::string_view protection);

// The lesser of what Theorem 1 and what Gaussian classes allow on one step's releases (ProtectionRow); NaN if neither
// is stated.
double StepAucBound(double auc_bound, double sum_kl);

// What the released steps of a run, each by its StepAucBound, may be said to allow: as much as 95% of them (nearest
// rank), those without a bound as 1. nullopt for no step. The least of them would let one lucky step speak for a run.
std::optional<double> StepAucBoundP95(std::vector<double> of_steps);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_STATED_BOUND_H_
