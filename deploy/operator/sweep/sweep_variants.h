// What a sweep varies besides the protection of the gradients: that of the activations, and where the model is cut.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_VARIANTS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_VARIANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"
#include "deploy/operator/sweep/sweep_protection.h"

#include "splitveil/v1/sweep.pb.h"

namespace splitveil {

// Nothing set: as configured.
struct SweepVariant {
  std::string activation_name;  // Empty: as configured.
  std::optional<v1::ActivationProtection> activations;
  std::string cut_layer;  // Empty: as configured.
  int32_t cut_width = 0;
};

// One column of the grid: what its runs have in common but the seed.
struct SweepCell {
  SweepProtection protection;  // Its name is that of all that varies, "marvell s=4, pareto, cut first": unique.
  SweepVariant variant;
};

// Every protection of `protections` (ExpandProtections) with every variant of `config`, cut by cut. References are not
// crossed: each cut has one of either kind, without a protection of the activations where that varies. Errors:
// InvalidArgument where two names give the same folder, or a variant's name is none.
absl::StatusOr<std::vector<SweepCell>> CrossVariants(const std::vector<SweepProtection>& protections,
                                                     const v1::SweepConfig& config);

// Gives the run what varies.
void SetVariant(const SweepVariant& variant, LocalRun& run);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_VARIANTS_H_
