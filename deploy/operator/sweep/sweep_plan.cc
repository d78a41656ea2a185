#include "deploy/operator/sweep/sweep_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/architecture/model_spec.h"
#include "common/config/text_config.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/protection/self_test.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameBytes = 64;  // Of one part.
constexpr char kUnprotected[] = "none";

bool IsUnprotected(const SweepVariant& variant) {
  return variant.activations.has_value() && variant.activations->has_none();
}

absl::Status CheckName(const char* field, const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes && absl::ascii_isalnum(name[0])
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(field, ".name: expected at most ", kMaxNameBytes,
                                                       " bytes that start with a letter or digit, found \"",
                                                       absl::CHexEscape(name), "\""));
}

// As configured, where nothing varies.
std::vector<SweepVariant> Activations(const v1::SweepConfig& config) {
  std::vector<SweepVariant> variants;
  for (const v1::SweepConfig::ActivationProtectionVariant& variant : config.activation_protection()) {
    variants.push_back({variant.name(), variant.config(), "", 0});
  }
  if (variants.empty()) {
    variants.emplace_back();
  }
  return variants;
}

// That of the references: unprotected where the activations' protection varies.
SweepVariant ReferenceActivations(const std::vector<SweepVariant>& variants) {
  const auto unprotected = std::find_if(variants.begin(), variants.end(), IsUnprotected);
  if (unprotected != variants.end() || variants.front().activation_name.empty()) {
    return unprotected != variants.end() ? *unprotected : variants.front();
  }
  SweepVariant reference{kUnprotected, v1::ActivationProtection(), "", 0};
  reference.activations->mutable_none();
  return reference;
}

// Whether the gradients' protection is the same, and none, in all that the configuration asks for: names leave it out.
bool LeavesGradientsAlone(const std::vector<SweepProtection>& protections) {
  return std::count_if(protections.begin(), protections.end(),
                       [](const SweepProtection& protection) { return !protection.is_added; }) == 1 &&
         std::any_of(protections.begin(), protections.end(), [](const SweepProtection& protection) {
           return !protection.is_added && protection.reference == Reference::kNone;
         });
}

std::string NameOf(const SweepProtection& protection, const SweepVariant& variant, bool gradients_alone) {
  std::vector<std::string> parts;
  const bool named = !variant.activation_name.empty() && !protection.is_added && !IsUnprotected(variant);
  if (!named || !gradients_alone) {
    parts.push_back(protection.name);
  }
  if (named) {
    parts.push_back(variant.activation_name);
  }
  if (!variant.cut_layer.empty()) {
    parts.push_back(absl::StrCat("cut ", variant.cut_layer));
  }
  return absl::StrJoin(parts, ", ");
}

absl::Status CheckNames(const v1::SweepConfig& config, const std::vector<SweepCell>& cells) {
  for (const v1::SweepConfig::ActivationProtectionVariant& variant : config.activation_protection()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckName("activation_protection", variant.name()));
  }
  for (const v1::SweepConfig::CutLayerVariant& variant : config.cut_layer()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckName("cut_layer", variant.name()));
  }
  std::map<std::string, std::string> taken;
  for (const SweepCell& cell : cells) {
    const auto [other, is_new] = taken.emplace(FileName(cell.protection.name), cell.protection.name);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("activation_protection, cut_layer: expected names that differ as file names, found \"",
                       absl::CHexEscape(other->second), "\" and \"", absl::CHexEscape(cell.protection.name), "\""));
    }
  }
  return absl::OkStatus();
}

// All cells of one cut.
void AppendCut(const std::vector<SweepProtection>& protections, const std::vector<SweepVariant>& activations,
               const v1::SweepConfig::CutLayerVariant* cut, std::vector<SweepCell>& cells) {
  const SweepVariant reference = ReferenceActivations(activations);
  const bool gradients_alone = LeavesGradientsAlone(protections);
  const auto append = [&](SweepProtection protection, SweepVariant variant) {
    if (cut != nullptr) {
      variant.cut_layer = cut->name();
      variant.cut_width = cut->cut_width();
    }
    // Only a run with unprotected activations shows what there is to gain.
    if (variant.activation_name != reference.activation_name) {
      protection.reference = Reference::kNo;
    }
    protection.name = NameOf(protection, variant, gradients_alone);
    cells.push_back({std::move(protection), std::move(variant)});
  };
  const bool has_reference = std::any_of(activations.begin(), activations.end(), [&](const SweepVariant& variant) {
    return variant.activation_name == reference.activation_name;
  });
  for (SweepProtection protection : protections) {
    if (!has_reference && !protection.is_added && protection.reference == Reference::kNone) {
      protection.is_added = true;
      append(std::move(protection), reference);
    }
  }
  for (const SweepProtection& protection : protections) {
    if (protection.is_added) {
      append(protection, reference);
      continue;
    }
    for (const SweepVariant& variant : activations) {
      append(protection, variant);
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<SweepCell>> CrossVariants(const std::vector<SweepProtection>& protections,
                                                     const v1::SweepConfig& config) {
  const std::vector<SweepVariant> activations = Activations(config);
  std::vector<SweepCell> cells;
  if (config.cut_layer().empty()) {
    AppendCut(protections, activations, nullptr, cells);
  }
  for (const v1::SweepConfig::CutLayerVariant& cut : config.cut_layer()) {
    AppendCut(protections, activations, &cut, cells);
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckNames(config, cells));
  return cells;
}

void SetVariant(const SweepVariant& variant, LocalRun& run) {
  if (variant.activations.has_value()) {
    *run.nonlabel_config.mutable_protection() = *variant.activations;
    PlaceActivationAccount(run);
  }
  if (!variant.cut_layer.empty()) {
    run.agreement.set_cut_layer(variant.cut_layer);
    run.agreement.set_cut_width(variant.cut_width);
  }
}

namespace {

void DescribeGaussianLabelDp(const v1::GradientProtection::GaussianLabelDp& config, SweepProtection& protection) {
  if (config.has_sigma()) {
    protection.family = "gaussian_label_dp_sigma";
    protection.parameter = config.sigma();
  } else if (config.has_mu()) {
    protection.family = "gaussian_label_dp_mu";
    protection.parameter = config.mu();
  } else if (config.has_budget()) {
    protection.family = "gaussian_label_dp_budget";
    protection.parameter = config.budget().epsilon();
  } else {
    protection.family = "gaussian_label_dp_run_auc_bound";
    protection.parameter = config.max_run_auc_bound();
  }
}

// Family and number of a protection that is configured in full.
void Classify(SweepProtection& protection) {
  const v1::GradientProtection& config = protection.config;
  switch (config.method_case()) {
    case v1::GradientProtection::kIso:
      protection.family = config.iso().has_ratio() ? "iso_ratio" : "iso_t";
      protection.parameter = config.iso().has_ratio() ? config.iso().ratio() : config.iso().t();
      return;
    case v1::GradientProtection::kMaxNorm:
      protection.family = "max_norm";
      return;
    case v1::GradientProtection::kMarvell:
      if (config.marvell().has_s()) {
        protection.family = "marvell_s";
        protection.parameter = config.marvell().s();
      } else if (config.marvell().has_sum_kl()) {
        protection.family = "marvell_sum_kl";
        protection.parameter = config.marvell().sum_kl();
      } else if (config.marvell().has_run_budget()) {
        protection.family = "marvell_run_budget";
        protection.parameter = config.marvell().run_budget().max_run_auc_bound();
      } else {
        protection.family = "marvell_detection_error";
        protection.parameter = config.marvell().detection_error();
      }
      return;
    case v1::GradientProtection::kLabelDp:
      protection.family = "label_dp";
      protection.parameter = config.label_dp().epsilon();
      return;
    case v1::GradientProtection::kGaussianLabelDp:
      DescribeGaussianLabelDp(config.gaussian_label_dp(), protection);
      return;
    case v1::GradientProtection::kSparsify:
      protection.family = "sparsify";
      protection.parameter = config.sparsify().keep();
      return;
    case v1::GradientProtection::kDiscretize:
      protection.family = "discretize";
      protection.parameter = config.discretize().bins();
      return;
    default:
      protection.family = "none";
  }
}

// Whether a run with this protection shows what there is to gain.
bool IsUnprotected(const v1::GradientProtection& config) {
  return config.has_none() && !config.has_distance_correlation();
}

void AddReferences(std::vector<SweepProtection>& protections) {
  auto none = std::find_if(protections.begin(), protections.end(),
                           [](const SweepProtection& protection) { return IsUnprotected(protection.config); });
  if (none == protections.end()) {
    none = protections.insert(protections.begin(), SweepProtection{"none", "none", std::nullopt, {}});
    none->config.mutable_none();
    none->is_added = true;
  }
  // What a protection costs is measured from here: a test AUC alone says little.
  none->reference = Reference::kNone;
  SweepProtection& frozen =
      protections.emplace_back(SweepProtection{"frozen", "frozen", std::nullopt, {}, Reference::kFrozen});
  frozen.config.mutable_none();
  frozen.is_added = true;
}

// The bound of a gradient without noise is above 0.5, or not known, in every batch: the gate freezes the bottom model
// before the first gradient is released.
v1::ReleasePolicy NothingLeaves() {
  v1::ReleasePolicy policy;
  policy.set_max_step_auc_bound(0.5);
  policy.set_max_run_auc_bound(0.5);
  policy.set_action(v1::FREEZE_BOTTOM);
  return policy;
}

// Appends one protection for each number; `set` writes it into the protection's configuration.
template <typename Numbers, typename Set>
void AppendGrid(const Numbers& numbers, const char* family, const char* prefix, Set set,
                std::vector<SweepProtection>& protections) {
  for (const double number : numbers) {
    SweepProtection& added = protections.emplace_back();
    added.name = absl::StrCat(prefix, number);
    added.family = family;
    added.parameter = number;
    set(number, added.config);
  }
}

absl::Status CheckNames(const std::vector<SweepProtection>& protections) {
  std::map<std::string, std::string> taken;
  for (const SweepProtection& protection : protections) {
    SPLITVEIL_RETURN_IF_ERROR(CheckName("protection", protection.name));
    const auto [other, is_new] = taken.emplace(FileName(protection.name), protection.name);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          "protection: expected names that differ as file names, also from the sweep's own, frozen and (unless it is "
          "configured) none; found \"",
          absl::CHexEscape(other->second), "\" and \"", absl::CHexEscape(protection.name), "\""));
    }
  }
  return absl::OkStatus();
}

SweepRun MakeRun(const LocalRun& base, const std::string& data_sha256, const SweepCell& cell, uint64_t seed) {
  const SweepProtection& protection = cell.protection;
  SweepRun run{base, protection, seed, cell.variant};
  run.name = absl::StrCat(FileName(protection.name), "-seed", seed);
  run.agreement.set_run_name(run.name);
  SetProtection(protection.config, run);
  SetVariant(cell.variant, run);
  if (protection.reference == Reference::kNone) {
    // The base policy could halt or freeze the very run that shows what there is to gain.
    run.label_config.clear_release();
  } else if (protection.reference == Reference::kFrozen) {
    *run.label_config.mutable_release() = NothingLeaves();
  }
  // One seed gives all protections the same initial weights, so that what differs is the protection.
  SetSeeds(seed, run.label_config, run.nonlabel_config);
  // Last, over all that was set above: a result counts for this configuration and these data only.
  run.configuration_sha256 = ConfigurationSha256(run, data_sha256);
  return run;
}

// A sweep of something else takes the protection of the gradients from the configuration.
void AddConfiguredProtection(const v1::GradientProtection& configured, v1::SweepConfig& config) {
  const bool has_any = !config.protection().empty() || !config.marvell_s().empty() ||
                       !config.marvell_sum_kl().empty() || !config.iso_t().empty() || !config.iso_ratio().empty() ||
                       !config.gaussian_label_dp_max_run_auc_bound().empty();
  if (!has_any && (!config.activation_protection().empty() || !config.cut_layer().empty())) {
    v1::SweepConfig::Protection& added = *config.add_protection();
    added.set_name(IsUnprotected(configured) ? "none" : "configured");
    *added.mutable_config() = configured;
  }
}

// Whether the parties would take the run.
absl::Status ValidateRun(const SweepRun& run) {
  SPLITVEIL_RETURN_IF_ERROR(ValidateLabelConfig(run.label_config, run.agreement));
  return run.variant.cut_layer.empty() ? absl::OkStatus() : CheckBottomSpec(run.nonlabel_config.model(), run.agreement);
}

}  // namespace

absl::StatusOr<std::vector<SweepProtection>> ExpandProtections(const v1::SweepConfig& config) {
  std::vector<SweepProtection> protections;
  for (const v1::SweepConfig::Protection& named : config.protection()) {
    SweepProtection& added = protections.emplace_back();
    added.name = named.name();
    added.config = named.config();
    Classify(added);
  }
  using Config = v1::GradientProtection;
  AppendGrid(
      config.marvell_s(), "marvell_s", "marvell s=", [](double s, Config& to) { to.mutable_marvell()->set_s(s); },
      protections);
  AppendGrid(
      config.marvell_sum_kl(), "marvell_sum_kl",
      "marvell sum_kl=", [](double sum_kl, Config& to) { to.mutable_marvell()->set_sum_kl(sum_kl); }, protections);
  AppendGrid(
      config.iso_t(), "iso_t", "iso t=", [](double t, Config& to) { to.mutable_iso()->set_t(t); }, protections);
  AppendGrid(
      config.iso_ratio(), "iso_ratio",
      "iso ratio=", [](double ratio, Config& to) { to.mutable_iso()->set_ratio(ratio); }, protections);
  AppendGrid(
      config.gaussian_label_dp_max_run_auc_bound(), "gaussian_label_dp_run_auc_bound", "gaussian_label_dp ",
      [](double bound, Config& to) { to.mutable_gaussian_label_dp()->set_max_run_auc_bound(bound); }, protections);
  if (protections.empty()) {
    return absl::InvalidArgumentError("protection: expected at least one, or a number in one of the lists, found none");
  }
  AddReferences(protections);
  SPLITVEIL_RETURN_IF_ERROR(CheckNames(protections));
  return protections;
}

absl::StatusOr<std::vector<SweepRun>> PlanSweep(const std::string& config_path) {
  v1::SweepConfig config;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, config));
  SPLITVEIL_ASSIGN_OR_RETURN(
      LocalRun base, LoadLocalRun(config.agreement_path(), config.label_config_path(), config.nonlabel_config_path()));
  // In the sweep's folder, above those of its runs: one alignment serves them all.
  ShareAlignment(base);
  AddConfiguredProtection(base.label_config.protection(), config);
  absl::StatusOr<std::vector<SweepProtection>> protections = ExpandProtections(config);
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, protections.status()));
  for (SweepProtection& protection : *protections) {
    // A run would refuse a protection that fails its self-test; the sweep refuses it before the first run.
    FillPlannedEpochs(base.agreement.epochs(), protection.config);
    SPLITVEIL_RETURN_IF_ERROR(Within(config_path, Within(protection.name, SelfTestProtection(protection.config))));
  }
  if (std::set<uint64_t>(config.seeds().begin(), config.seeds().end()).size() != config.seeds_size()) {
    return absl::InvalidArgumentError(absl::StrCat(config_path, ": seeds: a seed is listed twice: list each once"));
  }
  const absl::StatusOr<std::vector<SweepCell>> cells = CrossVariants(*protections, config);
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, cells.status()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string data_sha256, DataSha256(base));
  std::vector<SweepRun> runs;
  // Seed by seed: an interrupted sweep then has whole curves of fewer seeds, not half a curve of each.
  for (const uint64_t seed : config.seeds()) {
    for (const SweepCell& cell : *cells) {
      runs.push_back(MakeRun(base, data_sha256, cell, seed));
      SPLITVEIL_RETURN_IF_ERROR(Within(config_path, Within(cell.protection.name, ValidateRun(runs.back()))));
    }
  }
  return runs;
}

}  // namespace splitveil
