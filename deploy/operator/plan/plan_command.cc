#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "deploy/operator/commands.h"
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
  CLI::Option* const round_trip = AddValue(command, "--round_trip_ms=MS", link.round_trip_ms,
                                           "Round-trip time between the parties, in ms, as ping reports it; required "
                                           "with --bandwidth_mbps.")
                                      ->check(NumberIn(0, 60000))
                                      ->default_str("")
                                      ->group(kLink);
  CLI::Option* const cut_width = AddValue(command, "--cut_width=N", link.cut_width,
                                          "Width of the cut layer: the link carries that many numbers per example; "
                                          "required with --bandwidth_mbps.")
                                     ->check(IntegerIn(1, 65536))
                                     ->default_str("")
                                     ->group(kLink);
  CLI::Option* const bandwidth = AddValue(command, "--bandwidth_mbps=MBIT/S", link.bandwidth_mbps,
                                          "Bandwidth of the link in each direction, in Mbit/s.")
                                     ->check(NumberIn(0.001, 1e6))
                                     ->default_str("")
                                     ->needs(round_trip)
                                     ->needs(cut_width)
                                     ->group(kLink);
  round_trip->needs(bandwidth);
  cut_width->needs(bandwidth);
  AddValue(command, "--wire_dtype=TYPE", flags.wire_dtype, "wire_dtype of the agreement.")
      ->check(OneOf({"FLOAT32", "BFLOAT16", "FLOAT16"}))
      ->group(kLink);
  AddValue(command, "--batch_size=N", link.batch_size, "batch_size of the agreement.")
      ->check(IntegerIn(2, 1048576))
      ->group(kLink);
  AddValue(command, "--in_flight_batches=N", flags.in_flight_batches,
           "in_flight_batches of the agreement; AUTO or 0: the parties choose.")
      ->check(OrWord(IntegerIn(0, 64), kAuto))
      ->group(kLink);
  AddValue(command, "--max_in_flight_batches=N", link.max_in_flight_batches, "max_in_flight_batches of the agreement.")
      ->check(IntegerIn(1, 64))
      ->group(kLink);
  AddValue(command, "--step_ms=MS", link.step_ms, "Compute time of the slower party per batch, in ms.")
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
  AddValue(command, "--rows=N", options.rows, "Rows that both parties will share.")
      ->check(IntegerIn(1, int64_t{1} << 40))
      ->required();
  AddValue(command, "--epochs=N", options.epochs, "Epochs that will be trained.")
      ->check(IntegerIn(1, 100000))
      ->required();
  constexpr char kBound[] = "Under a proved bound";
  CLI::Option* const positives = AddValue(command, "--positives=SHARE", options.positives,
                                          "Share of the rows whose label is 1; required with --max_run_auc_bound.")
                                     ->check(NumberIn(0, 1))
                                     ->default_str("")
                                     ->group(kBound);
  CLI::Option* const bound =
      AddValue(command, "--max_run_auc_bound,--max_auc=AUC", options.max_run_auc_bound,
               "Bound on the AUC of any adversary over the whole run, as gaussian_label_dp { max_run_auc_bound }.")
          ->check(NumberIn(0.5, 0.999999))
          ->default_str("")
          ->needs(positives)
          ->group(kBound);
  positives->needs(bound);
  AddValue(command, "--delta=SHARE", options.delta, "Delta at which to report epsilon; 0: 1/rows.")
      ->check(NumberIn(0, 1))
      ->group(kBound);
  AddLinkFlags(*flags, command);
}

}  // namespace splitveil
