#include "deploy/operator/report/time_json.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/report/report_text.h"

namespace splitveil {
namespace {

struct Phase {
  double StepTimeRow::*seconds;
  const char* name;
  const char* words;
};

// What the party computes, then what it does for the other one, then what it waits.
constexpr Phase kPhases[] = {
    {&StepTimeRow::data, "data", "gathering the batch's rows"},
    {&StepTimeRow::forward, "forward", "forward computation"},
    {&StepTimeRow::backward, "backward", "back-propagation"},
    {&StepTimeRow::update, "update", "the optimisers, and gradients that only they need"},
    {&StepTimeRow::protection, "protection", "perturbing, and the release gate"},
    {&StepTimeRow::attacks, "attacks", "attacks, and recording"},
    {&StepTimeRow::serialise, "serialise", "between numbers and messages"},
    {&StepTimeRow::wire, "wire", "handing messages to the network"},
    {&StepTimeRow::wait, "wait", "waiting for the other party and its messages"},
};

// The rows that were written; NaN would be a damaged one.
StepTimeRow MeanTimes(const std::vector<StepTimeRow>& rows) {
  StepTimeRow mean;
  for (const Phase& phase : kPhases) {
    for (const StepTimeRow& row : rows) {
      mean.*phase.seconds += row.*phase.seconds / static_cast<double>(rows.size());
    }
  }
  return mean;
}

double Total(const StepTimeRow& times) {
  return std::accumulate(std::begin(kPhases), std::end(kPhases), 0.0,
                         [&](double sum, const Phase& phase) { return sum + times.*phase.seconds; });
}

// "Of a step of 10.8 ms the label party computed 45%, ... and waited 40%."
std::string DescribeTimes(const std::string& role, const StepTimeRow& times) {
  const double total = Total(times);
  const auto share = [&](double seconds) { return absl::StrFormat("%.0f%%", 100 * seconds / total); };
  std::vector<std::string> parts = {
      absl::StrCat("computed ", share(times.data + times.forward + times.backward + times.update)),
      absl::StrCat("moved messages ", share(times.serialise + times.wire))};
  if (times.protection > 0) {
    parts.push_back(absl::StrCat("protected ", share(times.protection)));
  }
  parts.push_back(absl::StrCat("attacked ", share(times.attacks)));
  return absl::StrFormat("Of a step of %.3g ms the %s %s and waited %s.", 1000 * total, role,
                         absl::StrJoin(parts, ", "), share(times.wait));
}

}  // namespace

Json PhasesJson() {
  Json phases = Json::array();
  for (const Phase& phase : kPhases) {
    phases.push_back({{"name", phase.name}, {"words", phase.words}});
  }
  return phases;
}

Json TimesJson(const RunRecords& run) {
  Json parties = Json::array();
  for (const PartyRecords& party : run.parties) {
    const StepTimeRow mean = MeanTimes(party.step_times);
    if (!(Total(mean) > 0)) {
      continue;
    }
    const std::string role = absl::AsciiStrToLower(DescribeRole(party.record.run.role));
    Json phases = Json::array();
    for (const Phase& phase : kPhases) {
      phases.push_back(NumberJson(1000 * mean.*phase.seconds));
    }
    parties.push_back({{"role", role},
                       {"step", NumberJson(1000 * Total(mean))},
                       {"phases", std::move(phases)},
                       {"words", DescribeTimes(role, mean)}});
  }
  return parties;
}

}  // namespace splitveil
