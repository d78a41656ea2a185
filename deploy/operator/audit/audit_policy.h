// Reads a privacy policy.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_POLICY_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_POLICY_H_

#include <string>

#include "absl/status/statusor.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// Reads `path` (policy.textproto) and writes the defaults of the lists into it. Errors: as LoadTextConfig;
// InvalidArgument for a max_measured_leak that limits nothing.
absl::StatusOr<v1::AuditPolicy> LoadAuditPolicy(const std::string& path);

// Writes the defaults of the lists into `policy` where they are empty.
void SetListDefaults(v1::AuditPolicy& policy);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_POLICY_H_
