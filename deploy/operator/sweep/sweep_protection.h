// One protection of the gradients in a sweep's grid.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PROTECTION_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PROTECTION_H_

#include <optional>
#include <string>

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// What every sweep trains beside the protections it is asked for, to say what there is to lose (bottom_gain.h).
enum class Reference {
  kNo,
  kNone,    // No protection; that of the configuration, where it has one.
  kFrozen,  // The bottom model stays at its random start, for no gradient ever leaves; the top model learns.
};

struct SweepProtection {
  std::string name;  // "marvell s=4".
  // The method, and how its strength is set where there are several ways: "none", "max_norm", "marvell_s",
  // "marvell_run_budget", "iso_ratio", "label_dp", ...
  std::string family;
  std::optional<double> parameter;  // The family's number.
  v1::GradientProtection config;
  Reference reference = Reference::kNo;
  bool is_added = false;  // By the sweep itself, as a reference only.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PROTECTION_H_
