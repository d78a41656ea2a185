#include "deploy/operator/plan/plan_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "deploy/operator/plan/loss_curves.h"
#include "deploy/operator/plan/privacy_plan.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<ExitCode> Plan(const PlanOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LossCurves curves, LossCurves::Embedded());
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivacyPlan plan, MakePrivacyPlan(options, curves));
  std::fputs(PrivacyPlanText(plan, curves).c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App& command =
      line.AddCommand({"plan", "State what a proved bound means and what it will cost, before anything is trained.",
                       "splitveil plan --rows=100000 --positives=0.25 --epochs=5 --max_run_auc_bound=0.6", "Analysis"},
                      [options] { return Plan(*options); });
  command.add_option("--rows", options->rows, "Rows that both parties will share.")
      ->type_name("N")
      ->check(IntegerIn(1, int64_t{1} << 40))
      ->required();
  command.add_option("--positives", options->positives, "Share of them whose label is 1.")
      ->type_name("SHARE")
      ->check(NumberIn(0, 1))
      ->required();
  command.add_option("--epochs", options->epochs, "Epochs that will be trained.")
      ->type_name("N")
      ->check(IntegerIn(1, 100000))
      ->required();
  command
      .add_option("--max_run_auc_bound,--max_auc", options->max_run_auc_bound,
                  "Bound on the AUC of any adversary over the whole run, as gaussian_label_dp { max_run_auc_bound }.")
      ->type_name("AUC")
      ->check(NumberIn(0.5, 1))
      ->required();
  command.add_option("--delta", options->delta, "Delta at which to report epsilon; 0 means 1/rows.")
      ->type_name("SHARE")
      ->check(NumberIn(0, 1));
}

}  // namespace splitveil
