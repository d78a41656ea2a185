#include "deploy/operator/plan/plan_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "deploy/operator/plan/link_plan.h"
#include "deploy/operator/plan/loss_curves.h"
#include "deploy/operator/plan/privacy_plan.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

struct PlanFlags {
  PlanOptions privacy;
  LinkPlanOptions link;
  std::string wire_dtype = "FLOAT32", in_flight_batches = "1";
};

constexpr char kAuto[] = "AUTO";

absl::Status PrintPrivacy(const PlanOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LossCurves curves, LossCurves::Embedded());
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivacyPlan plan, MakePrivacyPlan(options, curves));
  std::fputs(PrivacyPlanText(plan, curves).c_str(), stdout);
  return absl::OkStatus();
}

void PrintLink(const PlanFlags& flags) {
  LinkPlanOptions options = flags.link;
  options.rows = flags.privacy.rows;
  options.epochs = flags.privacy.epochs;
  (void)v1::DataType_Parse(flags.wire_dtype, &options.wire_dtype);  // One of those that the flag takes.
  options.in_flight_batches = 0;
  if (flags.in_flight_batches != kAuto) {
    (void)absl::SimpleAtoi(flags.in_flight_batches, &options.in_flight_batches);  // Likewise.
  }
  std::fputs(LinkPlanText(MakeLinkPlan(options)).c_str(), stdout);
}

absl::StatusOr<ExitCode> Plan(const PlanFlags& flags) {
  const bool of_privacy = flags.privacy.max_run_auc_bound > 0, of_link = flags.link.bandwidth_mbps > 0;
  if (!of_privacy && !of_link) {
    return absl::InvalidArgumentError(
        "plan: expected --max_run_auc_bound with --positives, or --bandwidth_mbps with --round_trip_ms and "
        "--cut_width, or both, found neither");
  }
  if (of_privacy) {
    SPLITVEIL_RETURN_IF_ERROR(PrintPrivacy(flags.privacy));
  }
  if (of_link) {
    PrintLink(flags);
  }
  return ExitCode::kDone;
}

void AddLinkFlags(PlanFlags& flags, CLI::App& command) {
  LinkPlanOptions& link = flags.link;
  constexpr char kLink[] = "Over a link";
  CLI::Option* const round_trip =
      command.add_option("--round_trip_ms", link.round_trip_ms, "Of the link between the parties, as ping has it.")
          ->type_name("MS")
          ->check(NumberIn(0, 60000))
          ->group(kLink);
  CLI::Option* const cut_width =
      command.add_option("--cut_width", link.cut_width, "Numbers of an example that cross it.")
          ->type_name("N")
          ->check(IntegerIn(1, 65536))
          ->group(kLink);
  CLI::Option* const bandwidth =
      command.add_option("--bandwidth_mbps", link.bandwidth_mbps, "Of each direction, in millions of bits a second.")
          ->type_name("MBIT/S")
          ->check(NumberIn(0.001, 1e6))
          ->needs(round_trip)
          ->needs(cut_width)
          ->group(kLink);
  round_trip->needs(bandwidth);
  cut_width->needs(bandwidth);
  command.add_option("--wire_dtype", flags.wire_dtype, "As agreed.")
      ->type_name("TYPE")
      ->check(OneOf({"FLOAT32", "BFLOAT16", "FLOAT16"}))
      ->group(kLink);
  command.add_option("--batch_size", link.batch_size, "As agreed.")
      ->type_name("N")
      ->check(IntegerIn(2, 1048576))
      ->group(kLink);
  command.add_option("--in_flight_batches", flags.in_flight_batches, "As agreed; AUTO, or 0: as the parties choose.")
      ->type_name("N")
      ->check(IntegerIn(0, 64) | CLI::IsMember({kAuto}))
      ->group(kLink);
  command.add_option("--max_in_flight_batches", link.max_in_flight_batches, "As agreed.")
      ->type_name("N")
      ->check(IntegerIn(1, 64))
      ->group(kLink);
  command.add_option("--step_ms", link.step_ms, "What the slower party computes for a batch.")
      ->type_name("MS")
      ->check(NumberIn(0, 1e6))
      ->group(kLink);
}

}  // namespace

void AddPlanCommand(CommandLine& line) {
  const auto flags = std::make_shared<PlanFlags>();
  PlanOptions& options = flags->privacy;
  CLI::App& command = line.AddCommand(
      {"plan",
       "State what a proved bound means and costs, and how fast a link lets a run be, before anything is trained.",
       "splitveil plan --rows=100000 --positives=0.25 --epochs=5 --max_run_auc_bound=0.6", "Analysis"},
      [flags] { return Plan(*flags); });
  command.add_option("--rows", options.rows, "Rows that both parties will share.")
      ->type_name("N")
      ->check(IntegerIn(1, int64_t{1} << 40))
      ->required();
  command.add_option("--epochs", options.epochs, "Epochs that will be trained.")
      ->type_name("N")
      ->check(IntegerIn(1, 100000))
      ->required();
  constexpr char kBound[] = "Under a proved bound";
  CLI::Option* const positives =
      command
          .add_option("--positives", options.positives,
                      "Share of the rows whose label is 1; required with --max_run_auc_bound.")
          ->type_name("SHARE")
          ->check(NumberIn(0, 1))
          ->default_str("")
          ->group(kBound);
  CLI::Option* const bound =
      command
          .add_option(
              "--max_run_auc_bound,--max_auc", options.max_run_auc_bound,
              "Bound on the AUC of any adversary over the whole run, as gaussian_label_dp { max_run_auc_bound }.")
          ->type_name("AUC")
          ->check(NumberIn(0.5, 0.999999))
          ->default_str("")
          ->needs(positives)
          ->group(kBound);
  positives->needs(bound);
  command.add_option("--delta", options.delta, "Delta at which to report epsilon; 0 means 1/rows.")
      ->type_name("SHARE")
      ->check(NumberIn(0, 1))
      ->group(kBound);
  AddLinkFlags(*flags, command);
}

}  // namespace splitveil
