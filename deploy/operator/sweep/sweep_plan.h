// From a sweep's configuration to the runs it asks for, and what they would count in a privacy account.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

#include "splitveil/v1/protection.pb.h"
#include "splitveil/v1/sweep.pb.h"

namespace splitveil {

// What every sweep trains beside the protections it is asked for, to say what there is to lose (bottom_gain.h).
enum class Reference {
  kNo,
  kNone,    // No protection; that of the configuration, where it has one.
  kFrozen,  // The bottom model stays at its random start, because no gradient is ever released; the top model learns.
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

struct SweepDebit {
  std::string words;    // For people, one line without its end. Empty: no run uses such an account.
  bool counts = false;  // Whether there is anything that the account does not have yet.
};

// Of `runs`, which are still to run: those whose account is the configuration's (HasKeptAccount), one file for all.
// Their strengths, held against what the account has of the examples that they train on. Writes nothing. Errors: as
// OpenPreparedData and PrivacyAccount::OpenToRead.
absl::StatusOr<SweepDebit> ForeseeSweepDebit(const std::vector<const SweepRun*>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_PLAN_H_
