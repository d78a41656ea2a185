// Fills the ledger's row from what a method knows.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "label_party/protection/class_moments.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/protection/marvell_solver.h"

namespace splitveil {

// Only the method; every number is NaN, which the bounds read as "no bound".
ProtectionReport EmptyReport(const std::string& method);

// The method's noise and the divergence it leaves between the classes of `moments`, of gradients with d components. The
// moments must be of two classes. solution.sum_kl is not read but computed.
ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const MarvellSolution& noise);

// FailedPrecondition: no noise of `method` is known to bring sum_kl down to max_sum_kl.
absl::Status NoNoiseKeeps(double max_sum_kl, const std::string& method);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_
