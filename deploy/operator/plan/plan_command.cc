#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

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
  AlignmentPlanOptions alignment;
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

absl::Status PrintAlignment(const PlanFlags& flags) {
  AlignmentPlanOptions options = flags.alignment;
  options.bandwidth_mbps = flags.link.bandwidth_mbps;
  options.peer_ids = options.peer_ids == 0 ? options.ids : options.peer_ids;
  options.cores =
      options.cores == 0 ? static_cast<int>(std::max(1U, std::thread::hardware_concurrency())) : options.cores;
  SPLITVEIL_ASSIGN_OR_RETURN(const MaskingSpeed speed, MeasureMasking());
  std::fputs(AlignmentPlanText(MakeAlignmentPlan(options, speed)).c_str(), stdout);
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Plan(const PlanFlags& flags) {
  const bool of_privacy = flags.privacy.max_run_auc_bound > 0, of_link = flags.link.cut_width > 0;
  const bool of_alignment = flags.alignment.ids > 0;
  const bool asks_of_training = flags.privacy.rows > 0 || !of_alignment;
  if ((asks_of_training && !of_privacy && !of_link) || (flags.link.bandwidth_mbps > 0 && !of_link && !of_alignment)) {
    return absl::InvalidArgumentError(
        "plan: nothing to plan: set --ids; or --rows and --epochs, together with --max_run_auc_bound and --positives, "
        "or with --bandwidth_mbps, --round_trip_ms and --cut_width");
  }
  if (of_alignment) {
    SPLITVEIL_RETURN_IF_ERROR(PrintAlignment(flags));
  }
  if (of_privacy) {
    SPLITVEIL_RETURN_IF_ERROR(PrintPrivacy(flags.privacy));
  }
  if (of_link) {
    PrintLink(flags);
  }
  return ExitCode::kDone;
}

void AddAlignmentFlags(PlanFlags& flags, CLI::App& command) {
  AlignmentPlanOptions& alignment = flags.alignment;
  alignment.cores = 0;  // Those of this machine.
  constexpr char kAlignment[] = "For an alignment";
  constexpr int64_t kMaxIds = 4'000'000'000;
  CLI::Option* const ids = AddValue(command, "--ids=N", alignment.ids,
                                    "Number of this party's ids. Measures this machine for a second, to predict bytes, "
                                    "time and memory of an alignment.")
                               ->check(IntegerIn(1, kMaxIds))
                               ->default_str("")
                               ->group(kAlignment);
  AddValue(command, "--peer_ids=N", alignment.peer_ids, "Number of the other party's ids.")
      ->check(IntegerIn(1, kMaxIds))
      ->default_str("as --ids")
      ->needs(ids)
      ->group(kAlignment);
  AddValue(command, "--cores=N", alignment.cores, "Processor cores of each party's machine.")
      ->check(IntegerIn(1, 4096))
      ->default_str("those of this machine")
      ->needs(ids)
      ->group(kAlignment);
  AddValue(command, "--id_bytes=N", alignment.id_bytes,
           "Length of an id in bytes, on average: for splitveil align --ids, which keeps the ids of its table on the "
           "disk.")
      ->check(NumberIn(1, 65536))
      ->default_str("")
      ->needs(ids)
      ->group(kAlignment);
}

void AddLinkFlags(PlanFlags& flags, CLI::Option* rows, CLI::Option* epochs, CLI::App& command) {
  LinkPlanOptions& link = flags.link;
  constexpr char kLink[] = "Over a link";
  CLI::Option* const round_trip = AddValue(command, "--round_trip_ms=MS", link.round_trip_ms,
                                           "Round-trip time between the parties, in ms, as ping reports it; required "
                                           "with --cut_width.")
                                      ->check(NumberIn(0, 60000))
                                      ->default_str("")
                                      ->group(kLink);
  CLI::Option* const cut_width = AddValue(command, "--cut_width=N", link.cut_width,
                                          "Width of the cut layer: the link carries that many numbers per example; "
                                          "required with --round_trip_ms.")
                                     ->check(IntegerIn(1, 65536))
                                     ->default_str("")
                                     ->group(kLink);
  CLI::Option* const bandwidth = AddValue(command, "--bandwidth_mbps=MBIT/S", link.bandwidth_mbps,
                                          "Bandwidth of the link in each direction, in Mbit/s. Needs --round_trip_ms "
                                          "and --cut_width to plan a training, or --ids to plan an alignment.")
                                     ->check(NumberIn(0.001, 1e6))
                                     ->default_str("")
                                     ->group(kLink);
  round_trip->needs(bandwidth);
  cut_width->needs(bandwidth)->needs(round_trip)->needs(rows)->needs(epochs);
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
       "Predict, before a run, what a proved bound means and costs, how fast a link lets the run be, and what an "
       "alignment takes.",
       "splitveil plan --rows=100000 --positives=0.25 --epochs=5 --max_run_auc_bound=0.6", "Analysis"},
      [flags] { return Plan(*flags); });
  CLI::Option* const rows = AddValue(command, "--rows=N", options.rows,
                                     "Rows that both parties will share; required unless only --ids is given.")
                                ->check(IntegerIn(1, int64_t{1} << 40))
                                ->default_str("");
  CLI::Option* const epochs =
      AddValue(command, "--epochs=N", options.epochs, "Epochs that will be trained; required with --rows.")
          ->check(IntegerIn(1, 100000))
          ->default_str("")
          ->needs(rows);
  rows->needs(epochs);
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
  bound->needs(rows);
  positives->needs(bound);
  AddValue(command, "--own_features_auc=AUC", options.own_features_auc,
           "Test AUC of a model of the label party's own columns alone, which trains with the true labels.")
      ->check(NumberIn(0.5, 1))
      ->default_str("0.5: it has none")
      ->group(kBound);
  AddValue(command, "--unprotected_auc=AUC", options.unprotected_auc,
           "Test AUC expected of both parties' columns without protection.")
      ->check(NumberIn(0.5, 1))
      ->default_str("that of the generated data")
      ->group(kBound);
  AddValue(command, "--delta=SHARE", options.delta, "Delta at which to report epsilon; 0: 1/rows.")
      ->check(NumberIn(0, 1))
      ->group(kBound);
  AddLinkFlags(*flags, rows, epochs, command);
  AddAlignmentFlags(*flags, command);
}

}  // namespace splitveil
