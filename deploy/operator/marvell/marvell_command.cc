#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "label_party/protection/marvell_table.h"

namespace splitveil {
namespace {

absl::StatusOr<std::string> SolvedTable(const std::string& input) {
  std::istringstream file;
  if (!input.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(std::string contents, ReadFile(input));
    file.str(std::move(contents));
  }
  std::ostringstream solved;
  const absl::Status status = SolveMarvellTable(input.empty() ? std::cin : file, solved);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(input.empty() ? "standard input" : input, ": ", status.message()));
  }
  return solved.str();
}

absl::StatusOr<std::string> BudgetTable(const Flags& flags) {
  if (flags.Get("epochs").empty() || flags.Get("max_run_auc_bound").empty()) {
    return absl::InvalidArgumentError(
        "command line: expected --epochs and --max_run_auc_bound together, found one of them");
  }
  if (!flags.Get("input").empty()) {
    return absl::InvalidArgumentError("command line: expected --epochs without --input, found both");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t epochs, flags.GetInt("epochs", 1, 100000));
  SPLITVEIL_ASSIGN_OR_RETURN(const double max_run_auc_bound, flags.GetDouble("max_run_auc_bound", 0.5, 1));
  SPLITVEIL_ASSIGN_OR_RETURN(const double noise_growth_per_epoch, flags.GetDouble("noise_growth_per_epoch", 0, 1000));
  v1::GradientProtection::RunBudget budget;
  budget.set_planned_epochs(static_cast<int32_t>(epochs));
  budget.set_max_run_auc_bound(max_run_auc_bound);
  budget.set_noise_growth_per_epoch(noise_growth_per_epoch);
  return RunBudgetTable(budget);
}

absl::Status Marvell(const Flags& flags) {
  const bool budget = !flags.Get("epochs").empty() || !flags.Get("max_run_auc_bound").empty() ||
                      flags.Get("noise_growth_per_epoch") != "1";
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string table, budget ? BudgetTable(flags) : SolvedTable(flags.Get("input")));
  if (!flags.Get("out").empty()) {
    return WriteFile(flags.Get("out"), table);
  }
  std::fwrite(table.data(), 1, table.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

Command MarvellCommand() {
  return {"marvell",
          "Solve Marvell's noise for each row d,u,v,g,p,P of a CSV table, or plan a run's.",
          {{"input", "", "Table to read; standard input where absent."},
           {"out", "", "Table to write; standard output where absent."},
           {"epochs", "", "Instead: print the s of each of so many epochs that keeps --max_run_auc_bound."},
           {"max_run_auc_bound", "", "AUC of an adversary that remembers every release, above 0.5 and below 1."},
           {"noise_growth_per_epoch", "1", "Noise power of an epoch relative to the one before."}},
          Marvell};
}

}  // namespace splitveil
