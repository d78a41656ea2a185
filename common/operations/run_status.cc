#include "common/operations/run_status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger_rows.h"
#include "common/process/runtime.h"

namespace splitveil {
namespace {

// The rate is taken over this window, from marks this far apart.
constexpr std::chrono::seconds kRateWindow(30), kRateSpacing(1);

// Events that report what was disclosed or decided: the events that every epoch writes must not push them out of the
// list.
bool Lasts(const EventRow& event) {
  constexpr std::array<absl::string_view, 13> kLasting = {
      "disclosure",         "disclosed",      "rounded_answers",      "attribute_queries",
      "auxiliary_labels",   "bound_exceeded", "claim_refuted",        "frozen",
      "gate_freeze_bottom", "operator_halt",  "operator_raise_noise", "operator_lower_disclosure",
      "disclosure_lowered"};
  return std::find(kLasting.begin(), kLasting.end(), event.kind) != kLasting.end();
}

void AddCurve(const std::string& name, const ThinnedCurve& curve, v1::RunHistory& history) {
  const std::vector<ThinnedCurve::Point> points = curve.points();
  if (points.empty()) {
    return;
  }
  v1::RunHistory::Curve& added = *history.add_curves();
  added.set_name(name);
  for (const ThinnedCurve::Point& point : points) {
    added.add_step(point.step);
    added.add_value(point.value);
  }
}

constexpr char kLabelParty[] = "label_party";

}  // namespace

void ThinnedCurve::Add(int64_t step, double value) {
  // A step without a figure is no point; NaN would break the page's axes.
  if (!std::isfinite(value)) {
    return;
  }
  sum_ += value;
  last_step_ = static_cast<double>(step);
  // A point is the mean of values_per_point_ values.
  if (++values_ < values_per_point_) {
    return;
  }
  points_.push_back({last_step_, sum_ / static_cast<double>(values_)});
  values_ = 0;
  sum_ = 0;
  // Full: every two points become one, so that the curve covers the run at half the resolution.
  if (points_.size() < kMaxPoints) {
    return;
  }
  for (size_t i = 0; i < kMaxPoints / 2; ++i) {
    points_[i] = {points_[2 * i + 1].step, (points_[2 * i].value + points_[2 * i + 1].value) / 2};
  }
  points_.resize(kMaxPoints / 2);
  values_per_point_ *= 2;
}

std::vector<ThinnedCurve::Point> ThinnedCurve::points() const {
  std::vector<Point> points = points_;
  if (values_ > 0) {
    points.push_back({last_step_, sum_ / static_cast<double>(values_)});
  }
  return points;
}

double LiveFigures::Leak::mean() const {
  return latest.empty() ? 0 : std::accumulate(latest.begin(), latest.end(), 0.0) / static_cast<double>(latest.size());
}

void LiveFigures::Take(const RecordedRow& row) {
  std::visit([this](const auto* recorded) { Take(*recorded); }, row);
}

void LiveFigures::Take(const StepRow& row) {
  ++steps_;
  examples_ += row.examples;
  step_seconds_ += row.seconds;
  bytes_sent_ += row.bytes_sent;
  bytes_received_ += row.bytes_received;
  seconds_.Add(row.step + 1, row.seconds);
  if (of_label_party_) {
    loss_.Add(row.step + 1, row.loss);
  }
  const SteadyTime now = clock_();
  // Once a second is enough for a rate, however fast steps are.
  if (recent_steps_.empty() || now - recent_steps_.back().first >= kRateSpacing) {
    recent_steps_.emplace_back(now, steps_);
  }
  // The rate is of the last half minute: a run that stalls must show it soon.
  while (recent_steps_.size() > 1 && now - recent_steps_.front().first > kRateWindow) {
    recent_steps_.pop_front();
  }
}

void LiveFigures::Take(const StepTimeRow& row) {
  for (size_t i = 0; i < kStepPhases.size(); ++i) {
    phase_seconds_[i] += row.*kStepPhases[i];
  }
}

void LiveFigures::Take(const ProtectionRow& row) {
  // Fail closed: the non-label party must not show noise or decisions even if such a row came.
  if (!of_label_party_) {
    return;
  }
  ++gate_[GateActionName(row.gate)];
  latest_step_bound_ = row.auc_bound;
  frozen_ = row.method == "frozen";
  step_bound_.Add(row.step + 1, row.auc_bound);
}

void LiveFigures::Take(const LeakRow& row) {
  if (!of_label_party_ || !std::isfinite(row.auc)) {
    return;
  }
  Leak& leak = leaks_[{row.observer, row.layer, row.attack}];
  const double auc = InvertedAuc(row.auc);
  leak.latest.push_back(auc);
  if (leak.latest.size() > kBatchesPerLeak) {
    leak.latest.pop_front();
  }
  leak.curve.Add(row.step + 1, auc);
}

void LiveFigures::Take(const EpochLeakRow& row) {
  if (!of_label_party_ || !std::isfinite(row.auc)) {
    return;
  }
  Leak& leak = leaks_[{row.observer, row.layer, row.attack}];
  leak.epoch_auc = InvertedAuc(row.auc);
  leak.epoch_bound = std::isfinite(row.gaussian_auc_bound) ? row.gaussian_auc_bound : 0;
}

void LiveFigures::Take(const EvaluationRow& row) {
  if (!of_label_party_ || row.split != "test") {
    return;
  }
  v1::TestFigures& test = tests_.emplace_back();
  test.set_step(static_cast<uint64_t>(row.step));
  test.set_log_loss(row.log_loss);
  test.set_auc(row.auc);
  test.set_rmse(row.rmse);
  test.set_r_squared(row.r_squared);
  if (tests_.size() > kMaxTests) {
    tests_.pop_front();
  }
}

void LiveFigures::Take(const EventRow& row) {
  interruptions_ += row.kind == "interrupted" ? 1 : 0;
  events_.push_back(row);
  if (events_.size() <= kMaxEvents) {
    return;
  }
  // What was disclosed stays listed; lines that every epoch writes make room first.
  const auto passing = std::find_if_not(events_.begin(), events_.end(), Lasts);
  const bool only_lasting = passing - events_.begin() >= static_cast<ptrdiff_t>(kMaxEvents / 2);
  // Then the oldest of a kind that is listed again: there are fewer kinds than places.
  const auto repeated = std::find_if(events_.begin(), events_.end(), [&](const EventRow& event) {
    return std::count_if(events_.begin(), events_.end(),
                         [&](const EventRow& other) { return other.kind == event.kind; }) > 1;
  });
  events_.erase(only_lasting && repeated != events_.end() ? repeated : passing);
}

double LiveFigures::StepsPerSecond() const {
  if (recent_steps_.empty()) {
    return 0;
  }
  const auto& [since, before] = recent_steps_.front();
  const double seconds = std::chrono::duration<double>(clock_() - since).count();
  // Before a second has passed, a rate would jump wildly.
  return seconds >= 1 ? static_cast<double>(steps_ - before) / seconds : 0;
}

void LiveFigures::AddTo(v1::GetStatusResponse& status) const {
  status.set_steps_done(static_cast<uint64_t>(steps_));
  status.set_examples_done(static_cast<uint64_t>(examples_));
  status.set_step_seconds(step_seconds_);
  status.set_bytes_sent(static_cast<uint64_t>(bytes_sent_));
  status.set_bytes_received(static_cast<uint64_t>(bytes_received_));
  for (size_t i = 0; i < kStepPhases.size() && steps_ > 0; ++i) {
    v1::PhaseSeconds& phase = *status.add_phases();
    phase.set_phase(kStepPhaseNames[i]);
    phase.set_seconds(phase_seconds_[i]);
  }
  if (status.phase() == "training") {
    const double rate = StepsPerSecond();
    status.set_steps_per_second(rate);
    if (rate > 0 && status.total_steps() > status.step()) {
      status.set_seconds_left(static_cast<double>(status.total_steps() - status.step()) / rate);
    }
  }
  status.set_interruptions(static_cast<uint64_t>(interruptions_));
  for (const EventRow& row : events_) {
    v1::RunEvent& event = *status.add_events();
    event.set_at(row.at);
    event.set_kind(row.kind);
    event.set_detail(row.detail);
  }
  if (of_label_party_) {
    AddTo(*status.mutable_label_party());
  }
}

void LiveFigures::AddTo(v1::LabelPartyFigures& figures) const {
  for (const auto& [key, leak] : leaks_) {
    v1::MeasuredLeak& added = *figures.add_leaks();
    added.set_observer(std::get<0>(key));
    added.set_layer(std::get<1>(key));
    added.set_attack(std::get<2>(key));
    added.set_title(AttackTitle(std::get<2>(key)));
    added.set_auc(leak.mean());
    added.set_epoch_auc(leak.epoch_auc);
    added.set_epoch_bound(leak.epoch_bound);
  }
  figures.set_step_auc_bound(latest_step_bound_);
  figures.set_frozen(frozen_);
  for (const auto& [action, steps] : gate_) {
    v1::GateCount& count = *figures.add_gate();
    count.set_action(action);
    count.set_steps(static_cast<uint64_t>(steps));
  }
  for (const v1::TestFigures& test : tests_) {
    *figures.add_tests() = test;
  }
}

v1::RunHistory LiveFigures::history() const {
  v1::RunHistory history;
  AddCurve("loss", loss_, history);
  AddCurve("seconds", seconds_, history);
  AddCurve("step_auc_bound", step_bound_, history);
  std::vector<std::pair<LeakKey, const Leak*>> own;
  for (const auto& [key, leak] : leaks_) {
    if (std::get<0>(key) == "label_party" && std::get<1>(key) == "cut" && !leak.latest.empty()) {
      own.emplace_back(key, &leak);
    }
  }
  // The page has room for a few curves: the strongest attacks are the ones to watch.
  std::stable_sort(own.begin(), own.end(),
                   [](const auto& left, const auto& right) { return left.second->mean() > right.second->mean(); });
  own.resize(std::min(own.size(), kMaxLeakCurves));
  for (const auto& [key, leak] : own) {
    AddCurve(absl::StrCat(std::get<1>(key), " ", std::get<2>(key)), leak->curve, history);
  }
  return history;
}

RunStatus::RunStatus(const char* role, SteadyClock clock) : clock_(std::move(clock)) {
  status_.set_role(role);
  status_.set_version(Version());
  status_.set_phase("waiting");
}

absl::Status RunStatus::Watch(Ledger& ledger) {
  {
    absl::MutexLock lock(&mutex_);
    // Figures of an earlier run of this process must not run on into this one.
    figures_.emplace(status_.role() == kLabelParty, clock_);
    status_.clear_ended();
  }
  return ledger.Observe([this](const RecordedRow& row) {
    absl::MutexLock lock(&mutex_);
    figures_->Take(row);
  });
}

v1::GetStatusResponse RunStatus::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  v1::GetStatusResponse status = status_;
  if (figures_.has_value()) {
    figures_->AddTo(status);
  }
  // Defence in depth: the operator's socket and page are built from this message alone.
  if (status.role() != kLabelParty) {  // This party shows no loss, leak or bound, even if one was set.
    status.clear_loss();
    status.clear_bound_exceeded();
    status.clear_label_party();
  }
  return status;
}

v1::RunHistory RunStatus::History() const {
  absl::MutexLock lock(&mutex_);
  return figures_.has_value() ? figures_->history() : v1::RunHistory();
}

namespace {

double Seconds(StepStopwatch::Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

AlignmentProgress::AlignmentProgress(RunStatus* status) : status_(status), line_("aligning", "ids", STDERR_FILENO) {
  status_->Update([](v1::GetStatusResponse& message) { message.set_phase("aligning"); });
}

void AlignmentProgress::Report(uint64_t masked_ids, uint64_t ids_to_mask, int64_t bytes) {
  ProgressUpdate update;
  update.bytes = bytes;
  // Ids are both the unit of the rate and the measure of progress.
  update.step = update.items = static_cast<int64_t>(masked_ids);
  update.total_steps = static_cast<int64_t>(ids_to_mask);
  line_.Update(update);
  if (!first_.has_value()) {
    first_.emplace(SteadyNow(), masked_ids);
  }
  const double seconds = SecondsSince(first_->first);
  const double rate = seconds > 0 ? static_cast<double>(masked_ids - first_->second) / seconds : 0;
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_masked_ids(masked_ids);
    message.set_ids_to_mask(ids_to_mask);
    message.set_alignment_bytes(static_cast<uint64_t>(bytes));
    message.set_masked_ids_per_second(rate);
    message.set_alignment_seconds_left(rate > 0 ? static_cast<double>(ids_to_mask - masked_ids) / rate : 0);
  });
}

void AlignmentProgress::Finish() { line_.Finish(); }

TrainingProgress::TrainingProgress(RunStatus* status, int64_t epochs, int64_t batches_per_epoch)
    : status_(status), epochs_(epochs), batches_per_epoch_(batches_per_epoch), line_("training", "ex", STDERR_FILENO) {
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_phase("training");
    message.set_total_steps(epochs * batches_per_epoch);
  });
}

void TrainingProgress::Report(int64_t steps, int64_t examples, double loss, const std::string& leak) {
  ProgressUpdate update;
  update.step = steps;
  update.total_steps = epochs_ * batches_per_epoch_;
  // The epoch of the batch that was done, not of the next one.
  update.epoch = (steps - 1) / batches_per_epoch_;
  update.epochs = epochs_;
  update.items = examples;
  update.loss = loss;
  update.leak = leak;
  line_.Update(update);
  status_->Update([&](v1::GetStatusResponse& message) {
    message.set_step(steps);
    message.set_epoch(update.epoch);
    // Protobuf's JSON cannot carry NaN to a browser.
    message.set_loss(std::isnan(loss) ? 0 : loss);
  });
}

void TrainingProgress::Finish() { line_.Finish(); }

StepStopwatch::StepStopwatch(std::function<Clock::time_point()> now) : now_(std::move(now)) { Restart(); }

void StepStopwatch::Restart() {
  started_ = latest_ = now_();
  times_ = StepTimeRow();
}

void StepStopwatch::Lap(Phase phase) {
  const Clock::time_point now = now_();
  times_.*phase += Seconds(now - latest_);
  latest_ = now;
}

void StepStopwatch::Move(double seconds, Phase from, Phase to) {
  // Phases must add up to the step: no phase may give more than it has.
  seconds = std::clamp(seconds, 0.0, times_.*from);
  times_.*from -= seconds;
  times_.*to += seconds;
}

StepTimeRow StepStopwatch::Finish(StepRow& row) {
  // From lap to lap and not from now: what follows the last lap belongs to the next step.
  row.seconds = Seconds(latest_ - started_);
  StepTimeRow finished = times_;
  finished.step = row.step;
  started_ = latest_;
  times_ = StepTimeRow();
  return finished;
}

}  // namespace splitveil
