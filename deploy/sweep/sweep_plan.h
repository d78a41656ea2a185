// From a sweep's configuration to the runs it asks for.
#ifndef SPLITVEIL_DEPLOY_SWEEP_SWEEP_PLAN_H_
#define SPLITVEIL_DEPLOY_SWEEP_SWEEP_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/sweep.pb.h"

namespace splitveil {

// One protection of the grid.
struct SweepProtection {
  std::string name;  // "marvell s=4".
  std::string
      family;  // "none", "max_norm", "marvell_s", "marvell_sum_kl", "marvell_detection_error", "iso_t", "iso_ratio".
  std::optional<double> parameter;  // The family's number.
  v1::GradientProtection config;
};

// One run: a protection with a seed.
struct SweepRun {
  SweepProtection protection;
  uint64_t seed = 0;
  std::string name;  // Its folder under runs/: "marvell-s=4-seed1".
  // As the parties get them, but that the label party's port is not known yet. Data and certificates by absolute paths,
  // everything that is written by paths relative to the run's folder.
  v1::RunAgreement agreement;
  v1::LabelPartyConfig label_config;
  v1::NonLabelPartyConfig nonlabel_config;
  // Of all of the above and of both parties' data: a result is of this run where it carries the same. Hexadecimal.
  std::string configuration_sha256;
};

// The protections in the order of the configuration: those named, then the lists.
// Errors: InvalidArgument where there is none, or where two have names that give the same folder.
absl::StatusOr<std::vector<SweepProtection>> ExpandProtections(const v1::SweepConfig& config);

// Every run of the sweep configured in the file `config_path`, seed by seed, so that what an interrupted sweep has
// finished is whole curves. Everything is validated, each protection proves itself (SelfTestProtection), and the data
// are read. Errors: NotFound and InvalidArgument, one line with file and field.
absl::StatusOr<std::vector<SweepRun>> PlanSweep(const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_SWEEP_SWEEP_PLAN_H_
