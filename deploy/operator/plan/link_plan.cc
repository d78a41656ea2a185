
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "deploy/operator/plan/privacy_plan.h"

#include "common/schedule/schedule.h"

namespace splitveil {
namespace {

constexpr double kBitsPerByte = 8, kBitsPerMegabit = 1e6;

}  // namespace

std::string TimeText(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds < 2 * kMinute) {
    return absl::StrFormat("%.3g s", seconds);
  }
  return seconds < 2 * kHour ? absl::StrFormat("%.3g min", seconds / kMinute)
                             : absl::StrFormat("%.3g h", seconds / kHour);
}

LinkPlan MakeLinkPlan(const LinkPlanOptions& options) {
  LinkPlan plan;
  plan.options = options;
  const double bits =
      kBitsPerByte * static_cast<double>(BatchBytes(options.batch_size, options.cut_width, options.wire_dtype));
  const LinkFigures link = {absl::Milliseconds(options.round_trip_ms),
                            absl::Seconds(bits / (kBitsPerMegabit * options.bandwidth_mbps))};
  plan.batch_ms = absl::ToDoubleMilliseconds(link.batch);
  const int64_t fresh = FreshBatches(BatchesPerEpoch(options.rows, {options.batch_size, /*minimum_batch_size=*/1}));
  plan.chosen_batches = BatchesInFlight(link, std::min(fresh, options.max_in_flight_batches));
  if (plan.options.in_flight_batches == 0) {
    plan.options.in_flight_batches = plan.chosen_batches;
  }
  const absl::Duration interval =
      BatchInterval(link, absl::Milliseconds(options.step_ms), plan.options.in_flight_batches);
  plan.examples_per_second = static_cast<double>(options.batch_size) / absl::ToDoubleSeconds(interval);
  plan.link_share = absl::FDivDuration(link.batch, interval);
  plan.seconds = static_cast<double>(options.rows) * static_cast<double>(options.epochs) / plan.examples_per_second;
  return plan;
}

std::string LinkPlanText(const LinkPlan& plan) {
  const LinkPlanOptions& options = plan.options;
  std::string text = absl::StrFormat("a link of %g ms and %g Mbit/s, batches of %d examples at cut width %d in %s\n",
                                     options.round_trip_ms, options.bandwidth_mbps, options.batch_size,
                                     options.cut_width, v1::DataType_Name(options.wire_dtype));
  Line("a batch on the link", absl::StrFormat("%.3g ms in each direction", plan.batch_ms), text);
  Line(
      "in_flight_batches: 0 (AUTO) chooses",
      absl::StrFormat("%d, at most %d and a sixteenth of an epoch", plan.chosen_batches, options.max_in_flight_batches),
      text);
  Line(absl::StrFormat("with %d in flight", options.in_flight_batches),
       absl::StrFormat("at most %.0f examples per second, %.0f%% of the link", plan.examples_per_second,
                       100 * plan.link_share),
       text);
  Line("training",
       absl::StrFormat("%s for %d rows and %d epochs, or more", TimeText(plan.seconds), options.rows, options.epochs),
       text);
  return text;
}

}  // namespace splitveil
