#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/marvell/marvell_table.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
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
  const absl::Status status = SolveMarvellTable(input.empty() ? std::cin : file, solved);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(input.empty() ? "standard input" : input, ": ", status.message()));
  }
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
