#include "common/monitoring/metrics_text.h"

#include <cmath>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Families in the order in which they are first added to.
class Metrics {
 public:
  template <typename Number>
  void Counter(const char* name, const char* help, Number value, Labels labels = {}) {
    ClientMetric metric;
    metric.counter.value = static_cast<double>(value);
    Add(name, help, MetricType::Counter, std::move(metric), std::move(labels));
  }
  // A value that is not finite is not known.
  template <typename Number>
  void Gauge(const char* name, const char* help, Number value, Labels labels = {}) {
    if (std::isfinite(static_cast<double>(value))) {
      ClientMetric metric;
      metric.gauge.value = static_cast<double>(value);
      Add(name, help, MetricType::Gauge, std::move(metric), std::move(labels));
    }
  }

  // Protobuf has 0 if nothing was set: 0 is not known either.
  template <typename Number>
  void GaugeIfSet(const char* name, const char* help, Number value) {
    if (value > 0) {
      Gauge(name, help, value);
    }
  }

  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void Add(const char* name, const char* help, MetricType type, ClientMetric metric, Labels labels) {
    metric.label = std::move(labels);
    const std::string full_name = absl::StrCat("splitveil_", name);
    // Samples of one family must stand together, and its help once (Prometheus' text format).
    if (families_.empty() || families_.back().name != full_name) {
      families_.push_back({full_name, help, type, {}});
    }
    families_.back().metric.push_back(std::move(metric));
  }

  std::vector<MetricFamily> families_;
};

void AddProcess(const v1::GetStatusResponse& status, Metrics& metrics) {
  metrics.Gauge("build_info", "Whose process this is, and its version.", 1,
                {{"role", status.role()}, {"version", status.version()}});
  metrics.Gauge("phase", "1 for what the run does now.", 1, {{"phase", status.phase()}});
  if (!status.run_id().empty()) {
    metrics.Gauge("run_info", "The run's name.", 1, {{"run_id", status.run_id()}});
  }
  for (const v1::CertificateEnd& end : status.certificates()) {
    metrics.Gauge("certificate_not_after_seconds", "When it ends, in seconds since 1970.", end.not_after(),
                  {{"certificate", end.certificate()}});
  }
}

void AddProgress(const v1::GetStatusResponse& status, Metrics& metrics) {
  if (!status.ended().empty()) {
    metrics.Gauge("run_ended", "1 once the run has ended, with how.", 1, {{"status", status.ended()}});
  }
  metrics.GaugeIfSet("ids_to_mask", "Own and peer's ids of the alignment.", status.ids_to_mask());
  metrics.GaugeIfSet("masked_ids", "Of these, masked so far.", status.masked_ids());
  metrics.GaugeIfSet("masked_ids_per_second", "Since this attempt of the alignment began.",
                     status.masked_ids_per_second());
  metrics.GaugeIfSet("alignment_bytes", "Payload sent and received in this attempt.", status.alignment_bytes());
  metrics.GaugeIfSet("alignment_remaining_seconds", "Of the alignment, at that rate.", status.alignment_seconds_left());
  metrics.Gauge("aligned_examples", "Examples that both parties have.", status.aligned_examples());
  metrics.Gauge("run_step", "Batches trained, those of earlier processes of the run included.", status.step());
  metrics.Gauge("run_steps", "Batches to be trained.", status.total_steps());
  metrics.Gauge("run_epoch", "Epoch, from 0.", status.epoch());
  metrics.Counter("steps_total", "Batches trained by this process.", status.steps_done());
  metrics.Counter("examples_total", "Examples in these batches.", status.examples_done());
  metrics.Counter("step_seconds_total", "Time spent in training steps.", status.step_seconds());
  for (const v1::PhaseSeconds& phase : status.phases()) {
    metrics.Counter("phase_seconds_total", "Where the time of the training steps went at this party.", phase.seconds(),
                    {{"phase", phase.phase()}});
  }
  metrics.GaugeIfSet("in_flight_batches", "Batches in flight at once, as agreed or chosen.",
                     status.in_flight_batches());
  if (status.turn_seconds() > 0) {
    metrics.Counter("turn_seconds_total", "From sending a batch's activations to its gradients, over all batches.",
                    status.turn_seconds());
  }
  metrics.Counter("sent_bytes_total", "Payload of training messages sent.", status.bytes_sent());
  metrics.Counter("received_bytes_total", "Payload of training messages received.", status.bytes_received());
  metrics.GaugeIfSet("steps_per_second", "Over the latest half a minute of training.", status.steps_per_second());
  metrics.GaugeIfSet("remaining_seconds", "Of training, at that rate.", status.seconds_left());
  metrics.Counter("interruptions_total", "Connections to the peer that were lost in this run, the first 100.",
                  status.interruptions());
}

void AddLeaks(const v1::LabelPartyFigures& figures, Metrics& metrics) {
  const auto each = [&](const char* name, const char* help, double (v1::MeasuredLeak::*figure)() const) {
    for (const v1::MeasuredLeak& leak : figures.leaks()) {
      // 0: not measured yet. A leak AUC is at least 0.5.
      if (const double value = (leak.*figure)(); value > 0) {
        metrics.Gauge(name, help, value,
                      {{"observer", leak.observer()}, {"layer", leak.layer()}, {"attack", leak.attack()}});
      }
    }
  };
  each("leak_auc", "Leak AUC, 0.5 to 1: mean of the latest 20 batches attacked.", &v1::MeasuredLeak::auc);
  each("epoch_leak_auc", "Leak AUC over all examples of the latest epoch.", &v1::MeasuredLeak::epoch_auc);
  each("epoch_leak_auc_bound", "What the noise of that epoch allows, for Gaussian classes.",
       &v1::MeasuredLeak::epoch_bound);
}

void AddLabelParty(const v1::GetStatusResponse& status, Metrics& metrics) {
  const v1::LabelPartyFigures& figures = status.label_party();
  // Before the first step there is no loss, and 0 would look like a perfect one.
  if (status.step() > 0) {
    metrics.Gauge("train_loss", "Mean training loss over the latest epoch, nats.", status.loss());
  }
  if (!figures.tests().empty()) {
    const v1::TestFigures& test = figures.tests(figures.tests_size() - 1);
    metrics.Gauge("test_log_loss", "Of the latest evaluation, nats.", test.log_loss());
    metrics.Gauge("test_auc", "Of the latest evaluation; of several classes the mean of each against the rest.",
                  test.auc());
    metrics.Gauge("test_rmse", "Of the latest evaluation of a regression.", test.rmse());
    metrics.Gauge("test_r_squared", "Of the latest evaluation of a regression.", test.r_squared());
  }
  // Only the label party's status has these figures.
  AddLeaks(figures, metrics);
  metrics.GaugeIfSet("step_auc_bound", "Bound on the leak AUC of the latest step (Theorem 1).",
                     figures.step_auc_bound());
  // 0 is no bound. A gauge that were 0 then would read as perfect privacy.
  if (figures.run_auc_bound() > 0) {
    metrics.Gauge("run_auc_bound", "Bound on the leak AUC of all releases of the run together.",
                  figures.run_auc_bound());
    metrics.Gauge("run_auc_bound_proved", "1: against every adversary; 0: for Gaussian classes only.",
                  figures.bound_proved() ? 1 : 0);
  }
  if (figures.max_run_auc_bound() > 0) {
    metrics.Gauge("run_auc_budget", "Bound that the run's budget allows at its end.", figures.max_run_auc_bound());
    metrics.Gauge("run_budget_left_ratio", "Share of the run's budget that is unspent, 0 to 1.", figures.budget_left());
  }
  for (const v1::GateCount& count : figures.gate()) {
    metrics.Counter("gate_decisions_total", "Steps by what the release gate decided.", count.steps(),
                    {{"action", count.action()}});
  }
  metrics.Gauge("bottom_frozen", "1: no further gradient is released.", figures.frozen() ? 1 : 0);
  metrics.Counter("bound_exceeded_total", "Times an attack exceeded over an epoch what the noise allows.",
                  status.bound_exceeded());
}

}  // namespace

std::string MetricsText(const v1::GetStatusResponse& status) {
  Metrics metrics;
  AddProcess(status, metrics);
  if (status.phase() == kServingPhase) {
    return metrics.Text();
  }
  AddProgress(status, metrics);
  if (status.has_label_party()) {
    AddLabelParty(status, metrics);
  }
  return metrics.Text();
}

}  // namespace splitveil
