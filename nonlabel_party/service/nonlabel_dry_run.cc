#include "nonlabel_party/service/nonlabel_dry_run.h"

#include <memory>
#include <optional>

#include "common/architecture/model_spec.h"
#include "common/config/text_config.h"
#include "common/operations/dry_run.h"
#include "nonlabel_party/service/nonlabel_party.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

DryRun DryRunNonLabelParty(const std::string& agreement_path, const std::string& config_path) {
  DryRun dry_run;
  const std::optional<v1::RunAgreement> agreement = DryRunAgreement(agreement_path, dry_run);
  v1::NonLabelPartyConfig config;
  const bool configured = dry_run.Check("configuration", LoadTextConfig(config_path, config), config_path);
  if (configured) {
    DryRunCertificates(config.party().identity(), config_path, dry_run);
    DryRunAlignments(config.party(), config_path, dry_run);
  }
  if (!configured || !agreement.has_value()) {
    return dry_run;
  }
  dry_run.Check("fits agreement", CheckBottomSpec(config.model(), *agreement), "model and audited layers");
  const std::shared_ptr<const Dataset> data =
      DryRunData(config.party(), config_path, *agreement, PreparedFor::kNonLabelParty, dry_run);
  if (data != nullptr) {
    DryRunExpectation(*agreement, *data, dry_run);
  }
  const absl::StatusOr<NonLabelPartyPlan> plan = PlanNonLabelParty(agreement_path, config_path);
  dry_run.Check("whole run", plan.ok() ? CheckNonLabelParty(*plan) : plan.status(),
                "opens, fits, and can write and listen where it is to");
  return dry_run;
}

}  // namespace splitveil
