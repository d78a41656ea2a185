// What the bound of a run rests on.
#ifndef SPLITVEIL_COMMON_LEAKAGE_BOUND_BASIS_H_
#define SPLITVEIL_COMMON_LEAKAGE_BOUND_BASIS_H_

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Whether the bound of a run with `protection`, as ledgers name it, holds for any adversary, model and data, by how
// what leaves is made. Every other bound assumes that the gradients of each class are Gaussian.
inline bool IsBoundProved(absl::string_view protection) { return absl::StartsWith(protection, "gaussian_label_dp"); }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_BOUND_BASIS_H_
