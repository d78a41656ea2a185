// From a sweep's configuration to the runs it asks for.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

#include "splitveil/v1/sweep.pb.h"

namespace splitveil {

// What every sweep trains beside the protections it is asked for, to say what there is to lose (bottom_gain.h).
enum class Reference {
  kNo,
  kNone,    // No protection; that of the configuration, where it has one.
  kFrozen,  // The bottom model stays at its random start, for no gradient ever leaves; the top model learns.
};

// One protection of the grid.
struct SweepProtection {
  std::string name;  // "marvell s=4".
  // The method, and how its strength is set where there are several ways: "none", "max_norm", "marvell_s",
  // "marvell_run_budget", "iso_ratio", "label_dp", ...
  std::string family;
  std::optional<double> parameter;  // The family's number.
  v1::GradientProtection config;
  Reference reference = Reference::kNo;
};

// One run: a protection with a seed. Its name: "marvell-s=4-seed1".
struct SweepRun : LocalRun {
  SweepProtection protection;
  uint64_t seed = 0;
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
