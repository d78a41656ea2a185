#include "deploy/operator/marvell/marvell_command.h"

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_table.h"

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
  command.add_option("--input", flags->input, "CSV table to read, with the columns d,u,v,g,p,P.")
      ->type_name("FILE")
      ->default_str("standard input");
  command.add_option("--out", flags->out, "CSV table to write.")->type_name("FILE")->default_str("standard output");
  command
      .add_option(
          "--epochs", flags->epochs,
          "Instead of solving a table, print the noise strength s for each of N epochs that keeps the run within "
          "--max_run_auc_bound.")
      ->type_name("N")
      ->check(IntegerIn(1, 100000));
  command
      .add_option("--max_run_auc_bound", flags->max_run_auc_bound,
                  "Bound on the AUC of an adversary that accumulates every release of the run.")
      ->type_name("AUC")
      ->check(NumberIn(0.5, 1));
  command
      .add_option("--noise_growth_per_epoch", flags->noise_growth_per_epoch,
                  "Noise power of an epoch relative to the one before.")
      ->type_name("RATIO")
      ->default_str("1")
      ->check(NumberIn(0, 1000));
}

}  // namespace splitveil
