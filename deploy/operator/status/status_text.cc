#include "deploy/operator/status/status_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int kAttacksShown = 4, kEventsShown = 5, kPhasesShown = 4;

class Lines {
 public:
  void Add(absl::string_view name, absl::string_view text) {
    absl::StrAppendFormat(&text_, "  %-12s%s\n", name, OneLine(text));
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string Headline(const v1::GetStatusResponse& status, ServingStatus health) {
  std::string text =
      absl::StrCat(status.role(), " ", status.version(), ": ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(health), ", ", status.phase());
  if (!status.run_id().empty()) {
    absl::StrAppend(&text, ", run ", status.run_id());
    if (status.phase() == "aligning") {
      if (status.ids_to_mask() > 0) {  // Known once both parties have told how many ids they hold.
        absl::StrAppend(&text, ", ", status.masked_ids(), " of ", status.ids_to_mask(),
                        " ids masked, own and the peer's");
      }
    } else {
      absl::StrAppend(&text, ", epoch ", status.epoch() + 1, ", step ", status.step(), "/", status.total_steps(), ", ",
                      status.aligned_examples(), " aligned examples");
    }
    if (status.bound_exceeded() > 0) {
      absl::StrAppend(&text, ", BOUND EXCEEDED ", status.bound_exceeded(), " times");
    }
    if (status.role() == kLabelPartyRole && status.step() > 0) {
      absl::StrAppendFormat(&text, ", loss %.4f", status.loss());
    }
  }
  return OneLine(text);
}

std::string Progress(const v1::GetStatusResponse& status) {
  if (!status.ended().empty()) {
    return status.ended();
  }
  std::string text = status.steps_per_second() > 0 ? absl::StrFormat("%.3g steps per second", status.steps_per_second())
                                                   : "rate not known yet";
  if (status.seconds_left() > 0) {
    absl::StrAppend(&text, ", about ", absl::FormatDuration(absl::Seconds(std::round(status.seconds_left()))), " left");
  }
  return text;
}

std::string Times(const v1::GetStatusResponse& status) {
  std::vector<std::pair<double, std::string>> phases;
  for (const v1::PhaseSeconds& phase : status.phases()) {
    phases.emplace_back(phase.seconds(), phase.phase());
  }
  std::sort(phases.rbegin(), phases.rend());
  phases.resize(std::min<size_t>(phases.size(), kPhasesShown));
  const double whole = std::max(status.step_seconds(), 1e-9);
  return absl::StrJoin(phases, ", ", [whole](std::string* out, const auto& phase) {
    absl::StrAppendFormat(out, "%s %.0f%%", phase.second, 100 * phase.first / whole);
  });
}

double Strength(const v1::MeasuredLeak& leak) { return std::max(leak.auc(), leak.epoch_auc()); }

void AddLeaks(const v1::LabelPartyFigures& figures, Lines& lines) {
  std::vector<v1::MeasuredLeak> leaks(figures.leaks().begin(), figures.leaks().end());
  std::stable_sort(leaks.begin(), leaks.end(),
                   [](const auto& left, const auto& right) { return Strength(left) > Strength(right); });
  leaks.resize(std::min<size_t>(leaks.size(), kAttacksShown));
  if (!leaks.empty()) {
    lines.Add("leak", absl::StrJoin(leaks, ", ", [](std::string* out, const v1::MeasuredLeak& leak) {
                absl::StrAppendFormat(out, "%s at %s %.3f", leak.attack(), leak.layer(), Strength(leak));
              }));
  }
}

void AddLabelParty(const v1::LabelPartyFigures& figures, Lines& lines) {
  lines.Add("protection", absl::StrCat(figures.protection(), figures.frozen() ? ", bottom model frozen" : ""));
  AddLeaks(figures, lines);
  if (figures.run_auc_bound() > 0) {
    std::string bound = absl::StrFormat("%.3f over the run so far, %s", figures.run_auc_bound(),
                                        figures.bound_proved() ? "proved" : "conditional");
    if (figures.max_run_auc_bound() > 0) {
      absl::StrAppendFormat(&bound, "; limit %.3f, %.0f%% of the budget left", figures.max_run_auc_bound(),
                            100 * figures.budget_left());
    }
    lines.Add("bound", bound);
  }
  if (!figures.tests().empty()) {
    const v1::TestFigures& test = figures.tests(figures.tests_size() - 1);
    lines.Add("test", std::isfinite(test.r_squared())
                          ? absl::StrFormat("R^2 %.4f, RMSE %.4f", test.r_squared(), test.rmse())
                          : absl::StrFormat("AUC %.4f, log loss %.4f", test.auc(), test.log_loss()));
  }
  if (!figures.gate().empty()) {
    lines.Add("gate", absl::StrJoin(figures.gate(), ", ", [](std::string* out, const v1::GateCount& count) {
                absl::StrAppend(out, count.steps(), " ", count.action());
              }));
  }
}

}  // namespace

std::string StatusText(const v1::GetStatusResponse& status, ServingStatus health) {
  std::string text = absl::StrCat(Headline(status, health), "\n");
  if (status.steps_done() == 0) {
    return text;
  }
  Lines lines;
  lines.Add("progress", Progress(status));
  if (status.has_label_party()) {
    AddLabelParty(status.label_party(), lines);
  }
  lines.Add("time", Times(status));
  lines.Add("traffic", absl::StrFormat("%.1f MB sent, %.1f MB received, %d interruptions",
                                       static_cast<double>(status.bytes_sent()) / 1e6,
                                       static_cast<double>(status.bytes_received()) / 1e6, status.interruptions()));
  const int first = std::max(0, status.events_size() - kEventsShown);
  for (int i = first; i < status.events_size(); ++i) {
    const v1::RunEvent& event = status.events(i);
    lines.Add(i == first ? "events" : "",
              absl::StrCat(event.at(), " ", event.kind(), event.detail().empty() ? "" : ": ", event.detail()));
  }
  absl::StrAppend(&text, lines.text());
  return text;
}

}  // namespace splitveil
