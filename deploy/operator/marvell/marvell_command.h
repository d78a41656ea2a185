// The tables of `splitveil marvell`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_

#include <istream>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// Reads CSV with the header `d,u,v,g,p,P`, solves each row (SolveMarvell) and writes CSV with the header
// `lambda1_neg,lambda2_neg,lambda1_pos,lambda2_pos,sum_kl,auc_bound`, one line per row in the same order, with 17
// significant digits, so that every double reads back as it was. Lines end in LF or CRLF; the last may lack its end.
// Nothing is written unless all rows are sound. Errors: InvalidArgument "line 3, column 7 (u): expected ..., found
// ...", lines and characters counted from 1; Internal where `in` fails or `out` does not take the result.
absl::Status SolveMarvellTable(std::istream& in, std::ostream& out);

// What a run budget comes to, one line per epoch of its plan (PlanRunBudget): "epoch,sum_kl,s,run_auc_bound". epoch is
// counted from 1; s is enough noise for classes without spread, whose sum_kl at s is 1/s or less (1/s exactly where
// both are as many); run_auc_bound is GaussianAucBound of all releases up to then. Errors: as PlanRunBudget.
absl::StatusOr<std::string> RunBudgetTable(const v1::GradientProtection::RunBudget& budget);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_
