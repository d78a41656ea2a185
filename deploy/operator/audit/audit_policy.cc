#include "deploy/operator/audit/audit_policy.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/config/text_config.h"
#include "common/status/status_macros.h"

namespace splitveil {

void SetListDefaults(v1::AuditPolicy& policy) {
  if (policy.allowed_disclosures().empty()) {
    policy.add_allowed_disclosures(v1::LABEL_SIDE_ONLY);
    policy.add_allowed_disclosures(v1::ROUNDED);
  }
  if (policy.allowed_gate_decisions().empty()) {
    policy.add_allowed_gate_decisions(v1::RELEASE);
    policy.add_allowed_gate_decisions(v1::RAISE_NOISE);
    policy.add_allowed_gate_decisions(v1::FREEZE_BOTTOM);
  }
}

absl::StatusOr<v1::AuditPolicy> LoadAuditPolicy(const std::string& path) {
  v1::AuditPolicy policy;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(path, policy));
  for (int i = 0; i < policy.max_measured_leak_size(); ++i) {
    const v1::MeasuredLeakLimit& limit = policy.max_measured_leak(i);
    if (!limit.has_max_mean() && !limit.has_max_p95() && !limit.has_max_pooled()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": max_measured_leak[", i, "]: expected max_mean, max_p95 or max_pooled, found none"));
    }
  }
  SetListDefaults(policy);
  return policy;
}

}  // namespace splitveil
