#include "deploy/operator/agreement/own_view.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"

#include "common/architecture/model_spec.h"
#include "common/dataset/prepared_data.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

absl::Status CheckConfig(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config) {
  v1::GradientProtection protection = config.protection();
  FillPlannedEpochs(agreement.epochs(), protection);
  SPLITVEIL_RETURN_IF_ERROR(ReleaseGate::Create(config.release(), protection).status());
  return ValidateLabelConfig(config, agreement);
}

absl::Status CheckConfig(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config) {
  return CheckBottomSpec(config.model(), agreement);
}

PreparedFor OwnerOf(const v1::LabelPartyConfig& /*config*/) { return PreparedFor::kLabelParty; }
PreparedFor OwnerOf(const v1::NonLabelPartyConfig& /*config*/) { return PreparedFor::kNonLabelParty; }

// Whether what the party's protection lets out is the same in however many epochs: planned for the whole run, or out in
// the first of them.
bool CoversAllEpochs(const v1::LabelPartyConfig& config) {
  const v1::GradientProtection& protection = config.protection();
  return protection.has_gaussian_label_dp() || protection.has_label_dp() || protection.marvell().has_run_budget();
}
bool CoversAllEpochs(const v1::NonLabelPartyConfig& config) { return !config.has_protection(); }

}  // namespace

absl::Status CheckAgainstOwn(const v1::RunAgreement& agreement, const PartyConfig& config,
                             const std::string& config_path) {
  return std::visit(
      [&](const auto& own) {
        const absl::Status fits = CheckConfig(agreement, own);
        if (!fits.ok()) {
          return absl::Status(fits.code(), absl::StrCat(config_path, ": ", fits.message()));
        }
        return OpenPreparedData(own.party(), config_path, agreement, OwnerOf(own)).status();
      },
      config);
}

std::vector<std::string> NotAllowed(const std::vector<AgreedValue>& values, const PartyConfig& config,
                                    const std::vector<std::string>& allowed) {
  const Concern own = std::holds_alternative<v1::LabelPartyConfig>(config) ? Concern::kLabels : Concern::kFeatures;
  const bool any_epochs = std::visit([](const auto& party) { return CoversAllEpochs(party); }, config);
  std::vector<std::string> fields;
  for (const AgreedValue& value : values) {
    const bool concerns = value.discloses_more == own || value.discloses_more == Concern::kBoth;
    if (concerns && !(any_epochs && value.field == "epochs") &&
        std::find(allowed.begin(), allowed.end(), value.field) == allowed.end()) {
      fields.push_back(value.field);
    }
  }
  return fields;
}

}  // namespace splitveil
