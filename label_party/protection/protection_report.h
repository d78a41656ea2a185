// Fills the ledger's row from what a method knows.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "label_party/protection/class_moments.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/protection/marvell_solver.h"

namespace splitveil {

// Only the method; every number is NaN, which the bounds read as "no bound".
ProtectionReport EmptyReport(const std::string& method);

// The method's noise and the divergence it leaves between the classes of `moments`, of gradients with d components. The
// moments must be of two classes. solution.sum_kl is not read but computed.
ProtectionReport ReportOf(const std::string& method, const ClassMoments& moments, const MarvellSolution& noise);

// For methods that state no noise of their own: the batch's moments where it has both classes, all else NaN. Errors: as
// ComputeClassMoments.
absl::StatusOr<ProtectionReport> DescribeBatch(const std::string& method, ConstMatrixView gradients,
                                               absl::Span<const uint8_t> labels);

// Makes `out` a copy of `gradients`.
void CopyRows(ConstMatrixView gradients, Matrix& out);

// FailedPrecondition: no noise of `method` is known to bring sum_kl down to max_sum_kl.
absl::Status NoNoiseKeeps(double max_sum_kl, const std::string& method);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PROTECTION_REPORT_H_
