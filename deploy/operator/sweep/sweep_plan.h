// From a sweep's configuration to the runs it asks for.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"
#include "deploy/operator/sweep/sweep_protection.h"
#include "deploy/operator/sweep/sweep_variants.h"

#include "splitveil/v1/sweep.pb.h"

namespace splitveil {

// One run: a protection with a seed. Its name: "marvell-s=4-seed1".
struct SweepRun : LocalRun {
  SweepProtection protection;  // Named as all that varies (SweepCell).
  uint64_t seed = 0;
  SweepVariant variant = {};
};

// The protections in the order of the configuration: those named, then the lists. Before them none, where it is not
// among them, and after them frozen. Errors: InvalidArgument where the configuration names none at all, or where two
// have names that give the same folder.
absl::StatusOr<std::vector<SweepProtection>> ExpandProtections(const v1::SweepConfig& config);

// Every run of the sweep configured in the file `config_path`, seed by seed, so that what an interrupted sweep has
// finished is whole curves. The references are run without the release policy of the base configuration, frozen with
// one that lets nothing leave. Everything is validated, each protection proves itself (SelfTestProtection), and the
// data are read. Errors: NotFound and InvalidArgument, one line with file and field.
absl::StatusOr<std::vector<SweepRun>> PlanSweep(const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_
