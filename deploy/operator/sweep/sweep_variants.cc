#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/sweep/sweep_plan.h"

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
    if (absl::Status status = CheckName("activation_protection", variant.name()); !status.ok()) {
      return status;
    }
  }
  for (const v1::SweepConfig::CutLayerVariant& variant : config.cut_layer()) {
    if (absl::Status status = CheckName("cut_layer", variant.name()); !status.ok()) {
      return status;
    }
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
  if (absl::Status status = CheckNames(config, cells); !status.ok()) {
    return status;
  }
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

}  // namespace splitveil
