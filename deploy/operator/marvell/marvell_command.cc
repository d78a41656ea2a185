#include "deploy/operator/marvell/marvell_command.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/commands.h"

#include "common/leakage/bounds.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/marvell/marvell_solver.h"

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

namespace {

struct MarvellFlags {
  std::string input;
  std::string out;
  std::optional<int32_t> epochs;
  std::optional<double> max_run_auc_bound;
  std::optional<double> noise_growth_per_epoch;
};

absl::StatusOr<std::string> SolvedTable(const std::string& input) {
  std::istringstream file;
  if (!input.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::string contents, ReadFile(input));
    file.str(contents);
  }
  std::ostringstream solved;
  SPLITVEIL_RETURN_IF_ERROR(
      Within(input.empty() ? "standard input" : input, SolveMarvellTable(input.empty() ? std::cin : file, solved)));
  return solved.str();
}

absl::StatusOr<std::string> BudgetTable(const MarvellFlags& flags) {
  if (!flags.epochs || !flags.max_run_auc_bound) {
    return absl::InvalidArgumentError(absl::StrCat(
        "command line: expected --epochs and --max_run_auc_bound together, found ", flags.epochs ? "--epochs alone"
                                                                                    : flags.max_run_auc_bound
                                                                                        ? "--max_run_auc_bound alone"
                                                                                        : "neither"));
  }
  if (!flags.input.empty()) {
    return absl::InvalidArgumentError("command line: expected --epochs without --input, found both");
  }
  v1::GradientProtection::RunBudget budget;
  budget.set_planned_epochs(*flags.epochs);
  budget.set_max_run_auc_bound(*flags.max_run_auc_bound);
  budget.set_noise_growth_per_epoch(flags.noise_growth_per_epoch.value_or(1));
  return RunBudgetTable(budget);
}

absl::StatusOr<ExitCode> Marvell(const MarvellFlags& flags) {
  const bool budget = flags.epochs || flags.max_run_auc_bound || flags.noise_growth_per_epoch;
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string table, budget ? BudgetTable(flags) : SolvedTable(flags.input));
  if (!flags.out.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckOwnTable(flags.out, table.substr(0, table.find('\n') + 1)));
    SPLITVEIL_RETURN_IF_ERROR(WriteFile(flags.out, table));
    return ExitCode::kDone;
  }
  std::fwrite(table.data(), 1, table.size(), stdout);
  return ExitCode::kDone;
}

}  // namespace

void AddMarvellCommand(CommandLine& line) {
  const auto flags = std::make_shared<MarvellFlags>();
  CLI::App& command =
      line.AddCommand({"marvell", "Solve Marvell's optimisation for a table, or plan the noise of each epoch of a run.",
                       "splitveil marvell --epochs=5 --max_run_auc_bound=0.8", "Analysis"},
                      [flags] { return Marvell(*flags); });
  AddValue(command, "--input=FILE", flags->input, "CSV table to read, with the columns d,u,v,g,p,P.")
      ->default_str("standard input");
  AddValue(command, "--out=FILE", flags->out, "CSV table to write.")->default_str("standard output");
  AddValue(command, "--epochs=N", flags->epochs,
           "Instead of solving a table, print the noise strength s for each of N epochs that keeps the run within "
           "--max_run_auc_bound.")
      ->check(IntegerIn(1, 100000));
  AddValue(command, "--max_run_auc_bound=AUC", flags->max_run_auc_bound,
           "Bound on the AUC of an adversary that accumulates every release of the run.")
      ->check(NumberIn(0.5, 1));
  AddValue(command, "--noise_growth_per_epoch=RATIO", flags->noise_growth_per_epoch,
           "Noise power of an epoch relative to the one before.")
      ->default_str("1")
      ->check(NumberIn(0, 1000));
}

}  // namespace splitveil
