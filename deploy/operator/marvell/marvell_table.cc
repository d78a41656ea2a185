#include "deploy/operator/marvell/marvell_table.h"

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_solver.h"
#include "label_party/marvell/run_budget.h"

namespace splitveil {
namespace {

constexpr char kHeaderIn[] = "d,u,v,g,p,P";
constexpr char kHeaderOut[] = "lambda1_neg,lambda2_neg,lambda1_pos,lambda2_pos,sum_kl,auc_bound\n";
constexpr size_t kFields = 6;
constexpr std::array<const char*, kFields> kNames = {"d", "u", "v", "g", "p", "P"};

absl::Status Malformed(int64_t line, size_t column, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", column, ": expected ", expected, ", found '", found, "'"));
}

absl::Status MalformedField(int64_t line, size_t column, size_t field, absl::string_view expected,
                            absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ", column ", column, " (", kNames[field],
                                                 "): expected ", expected, ", found '", found, "'"));
}

absl::Status ParseRow(absl::string_view text, int64_t line, MarvellProblem& problem) {
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ',');
  if (fields.size() != kFields) {
    return Malformed(line, 1, absl::StrCat("6 fields ", kHeaderIn), absl::StrCat(fields.size(), " fields"));
  }
  const std::array<double*, kFields> numbers = {nullptr,    &problem.u, &problem.v,
                                                &problem.g, &problem.p, &problem.power};
  for (size_t field = 0; field < kFields; ++field) {
    const size_t column = static_cast<size_t>(fields[field].data() - text.data()) + 1;
    if (field == 0) {
      if (!absl::SimpleAtoi(fields[field], &problem.d) || problem.d < 1) {
        return MalformedField(line, column, field, "an integer >= 1", fields[field]);
      }
      continue;
    }
    double& number = *numbers[field];
    const double most = &number == &problem.p ? 1 : std::numeric_limits<double>::max();
    // Written so that NaN is refused.
    if (!absl::SimpleAtod(fields[field], &number) || !(number >= 0 && number <= most)) {
      return MalformedField(line, column, field, most == 1 ? "a number in [0, 1]" : "a finite number >= 0",
                            fields[field]);
    }
  }
  return absl::OkStatus();
}

bool ReadLine(std::istream& in, std::string& line) {
  if (!std::getline(in, line)) {
    return false;
  }
  // Tables from Windows end their lines with CR LF.
  if (!line.empty() && line.back() == '\r') {
    line.pop_back();
  }
  return true;
}

absl::StatusOr<std::vector<MarvellProblem>> ReadMarvellProblems(std::istream& in) {
  std::string line;
  if (!ReadLine(in, line) || line != kHeaderIn) {
    return Malformed(1, 1, absl::StrCat("the header ", kHeaderIn), line);
  }
  std::vector<MarvellProblem> problems;
  for (int64_t number = 2; ReadLine(in, line); ++number) {
    SPLITVEIL_RETURN_IF_ERROR(ParseRow(line, number, problems.emplace_back()));
  }
  // A pipe that breaks would otherwise give a table that looks complete.
  if (in.bad()) {
    return absl::InternalError("the table could not be read to its end");
  }
  return problems;
}

}  // namespace

absl::Status SolveMarvellTable(std::istream& in, std::ostream& out) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<MarvellProblem> problems, ReadMarvellProblems(in));
  // Written at once: after an error in the last row nothing has been printed.
  std::string table = kHeaderOut;
  for (const MarvellProblem& problem : problems) {
    SPLITVEIL_ASSIGN_OR_RETURN(MarvellSolution s, SolveMarvell(problem));
    // 17 digits give back the same double.
    absl::StrAppendFormat(&table, "%.17g,%.17g,%.17g,%.17g,%.17g,%.17g\n", s.lambda1_neg, s.lambda2_neg, s.lambda1_pos,
                          s.lambda2_pos, s.sum_kl, AucBound(s.sum_kl));
  }
  out << table << std::flush;
  return out.good() ? absl::OkStatus() : absl::InternalError("the result could not be written");
}

absl::StatusOr<std::string> RunBudgetTable(const v1::GradientProtection::RunBudget& budget) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<double> shares, PlanRunBudget(budget));
  std::string table = "epoch,sum_kl,s,run_auc_bound\n";
  double spent = 0;
  for (size_t e = 0; e < shares.size(); ++e) {
    const double share = shares[e];
    spent += share;
    absl::StrAppendFormat(&table, "%d,%.9g,%.9g,%.9g\n", e + 1, share, 1 / share, GaussianAucBound(spent));
  }
  return table;
}

}  // namespace splitveil
